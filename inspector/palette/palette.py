"""The palette: what was said, and threads, turns, pages, keys, things to do by name.

What is typed comes in the body of a request, so that it is in no address and no log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import signed_in, signed_in_panel
from inspector.palette import contents, previews, targets, typed
from inspector.palette.contents import Line, Scan
from inspector.palette.targets import Target
from inspector.palette.typed import Typed
from inspector.web import shell
from inspector.web.visitors import RoleError, Visitor
from memoryhub.errors import Refusal
from memoryhub.kernel.search.ranking import ORDERS, Order
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.search.searching import SearchRequest, SearchResult
from memoryhub.queries.threads import name_search
from memoryhub.queries.threads.threads import ThreadLine

#: Lines of a group.
SHOWN = 6
#: Words before a number that say what it counts.
_TURN, _EVENT, _SLOT = ("turn",), ("event", "seq"), ("slot", "message")
_NUMBERED = {*_TURN, *_EVENT, *_SLOT}
PANELS = ("palette", "found", "said", "preview")
#: Threads that `in:` may name at once.
_NAMED = 5

Context = dict[str, object]
Group = tuple[str, Sequence[Target]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hold from where somebody searches: perhaps a thread, perhaps as of an event."""

    visitor: Visitor
    thread: Thread | None = None
    at_seq: int | None = None
    #: What was said is looked for in all of the project.
    wide: bool = True
    order: Order = ORDERS[0]

    @property
    def base(self) -> str:
        assert self.thread is not None
        names = {"project": self.visitor.project.slug, "thread": self.thread.name}
        return reverse("thread", kwargs=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Hold what was found of what was said."""

    lines: Sequence[Line]
    #: Of threads; None where all of a project is looked through.
    result: SearchResult | None = None
    scan: Scan | None = None


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show the palette as a page of its own."""
    visitor = access.find_visitor(request, project)
    context = _context(request, visitor, at_once=True)
    context["preview"] = _first(visitor, context["heard"], str(context["contents"]))
    template = "inspector/palette/show.html"
    return shell.page(request, template, context, visitor=visitor, section="search")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in_panel
def panel(request: HttpRequest, project: str, panel: str) -> HttpResponse:
    """Show the palette in a dialog, what it has found, more of it, or one page."""
    visitor = access.find_visitor(request, project)
    if panel not in PANELS:
        raise Http404
    if panel == "preview":
        context = _preview(request.POST, visitor)
    else:
        context = _context(request, visitor, at_once=panel == "said")
    context["visitor"] = visitor
    answer = render(request, f"inspector/palette/_{panel}.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


def _context(request: HttpRequest, visitor: Visitor, *, at_once: bool) -> Context:
    """Find what was typed.

    At most four queries for names, five where a thread is at hand, and those of what
    was said. All of a project is looked through `at_once`, or else bit by bit later.
    """
    place = _place(request, visitor)
    read = typed.read(request.POST.get("q", ""))
    groups = [] if read.error else [*_groups(place, read)]
    return {
        "typed": read,
        "contents": read.contents,
        "groups": groups,
        "heard": _heard(place, read, request.POST, at_once=at_once),
        "count": sum(len(found) for _, found in groups),
        "place": place,
        "preview": "",
        "onward": _onward(request),
    }


def _place(request: HttpRequest, visitor: Visitor) -> Place:
    """Read where somebody stands; a thread that they may not see is none."""
    sent = request.POST if request.method == "POST" else request.GET
    place = Place(visitor=visitor, order=_order(sent.get("order", "")))
    if name := sent.get("thread", ""):
        # Names are no content: nobody is noted to have read the thread.
        looking = replace(visitor, reading=None)
        with suppress(Refusal, RoleError):
            thread = access.find_thread(looking, name)
            wide = sent.get("scope") == "project"
            place = replace(place, thread=thread, wide=wide)
    seq = _number(sent.get("at_seq", ""))
    if place.thread is None or seq is None:
        return place
    return replace(place, at_seq=min(seq, place.thread.head_seq))


def _order(word: str) -> Order:
    return next((order for order in ORDERS if order == word), ORDERS[0])


def _number(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and len(text) <= 18
    return int(text) if plain else None


def _onward(request: HttpRequest) -> str:
    """Read the page that lies below the dialog: a theme leads back to it."""
    below = urlsplit(request.headers.get("HX-Current-URL", request.get_full_path()))
    return f"{below.path}?{below.query}" if below.query else below.path


def _heard(
    place: Place, read: Typed, sent: Mapping[str, str], *, at_once: bool
) -> Heard | None:
    """Find what was said; None where nothing of it is looked for."""
    if not read.contents or _numbers(read.words):
        return None
    limit = contents.EACH if place.wide else contents.SHOWN
    wanted = SearchRequest.parse(
        read.contents, order=place.order, limit=limit, can_exclude=True
    )
    wanted = replace(wanted, where=FactFilter(valid_at=clock.now()))
    if place.thread is not None and not place.wide:
        rows = [place.thread]
    elif names := wanted.query.filters.threads:
        rows = [*_named(place.visitor, names)]
    else:
        lines, scan = list[Line](), Scan.read(sent)
        if at_once:
            lines, scan = contents.search_project(place.visitor, wanted, scan)
        return Heard(lines=lines, scan=scan)
    at_seq = None if place.wide else place.at_seq
    lines, result = contents.search_threads(place.visitor, rows, wanted, at_seq=at_seq)
    return Heard(lines=lines, result=result)


def _numbers(words: Sequence[str]) -> bool:
    """Tell whether something is called by its number: `turn 31`."""
    kind, number = words if len(words) == 2 else ("", "")
    return kind.lower() in _NUMBERED and number.isdigit()


def _named(visitor: Visitor, names: Iterable[str]) -> Iterator[Thread]:
    """Yield the threads of these names that the visitor may see."""
    for name in sorted(names)[:_NAMED]:
        with suppress(Refusal, RoleError):
            yield access.find_thread(visitor, name)


def _first(visitor: Visitor, heard: object, words: str) -> str:
    """Draw the page of the first hit, for where no script asks for it."""
    line = heard.lines[0] if isinstance(heard, Heard) and heard.lines else None
    if line is None or not line.hit.page:
        return ""
    row = access.find_thread(visitor, line.thread)
    found = previews.preview(
        row, line.hit.page, words, at_seq=line.at_seq, then=line.then_seq
    )
    return render_to_string("inspector/palette/_preview.html", found)


def _preview(sent: Mapping[str, str], visitor: Visitor) -> Context:
    """Gather what is shown of a hit: of the page that is named."""
    row = access.find_thread(visitor, sent.get("thread", ""))
    return previews.preview(
        row,
        sent.get("page", ""),
        typed.read(sent.get("q", "")).contents,
        at_seq=_number(sent.get("at_seq", "")),
        then=_number(sent.get("seq", "")),
    )


def _groups(place: Place, read: Typed) -> Iterator[Group]:
    """Yield what was found, by what it is; empty groups are left out."""
    if read.text and not (read.words or read.terms):
        # A phrase, or a role, is nothing that anything is called by.
        return
    words = tuple(word.lower() for word in read.words)
    threads = name_search.list_threads(
        place.visitor.project,
        read.words,
        terms=read.terms,
        now=clock.now(),
        limit=SHOWN,
        restricted=place.visitor.officer,
    )
    found: list[Group] = [
        (
            "Threads" if read.text else "Recent threads",
            [_thread(place.visitor, line, words) for line in threads],
        )
    ]
    if not read.terms:
        found += _inside(place, read.words, words)
    yield from ((title, lines) for title, lines in found if lines)


def _inside(
    place: Place, typed: tuple[str, ...], words: tuple[str, ...]
) -> Iterator[Group]:
    """Yield what the thread at hand has, and what one may do or open."""
    thread = place.thread
    if thread is not None and words:
        yield "Turns, pages and keys", [*_parts(place, thread, typed, words)]
    offered = [*targets.iter_pages(place.visitor)]
    if not words:
        # A theme is offered to those who type of it.
        offered = [each for each in offered if not each.theme]
    if thread is not None:
        of_thread = targets.iter_thread_targets(
            place.visitor, thread.name, at_seq=place.at_seq
        )
        offered = [*of_thread, *offered]
    for title, kind in (("Do", "do"), ("Go to", "go")):
        lines = (each for each in offered if each.kind == kind)
        yield title, targets.fitting(lines, words, SHOWN)


def _parts(
    place: Place, thread: Thread, typed: Sequence[str], words: tuple[str, ...]
) -> Iterator[Target]:
    """Yield numbered things of a thread, then its pages and keys by name."""
    yield from _numbered(place, thread, words)
    base = place.base
    for page in name_search.list_pages(thread, typed, limit=SHOWN):
        yield Target(
            title=page.page_id,
            kind="page",
            href=f"{base}/pages/{page.page_id}",
            about=f"page, {page.type} · {page.tokens:,} tokens",
            words=words,
        )
    now = clock.now()
    for key in name_search.list_keys(thread, typed, now=now, limit=SHOWN):
        href, about = f"{base}/keys/{key}", "key"
        yield Target(title=key, kind="key", href=href, about=about, words=words)


def _numbered(place: Place, thread: Thread, words: Sequence[str]) -> Iterator[Target]:
    """Yield the turn, the event and the message of each number that was typed."""
    kinds = (
        (_TURN, 1, thread.turn_count, "Turn", "turns"),
        (_EVENT, 1, thread.head_seq, "Event", "events"),
        (_SLOT, 0, thread.slot_count - 1, "Message", "slots"),
    )
    called = {word for names, *_ in kinds for word in names}
    for before, word in zip(("", *words), words, strict=False):
        if not (word.isascii() and word.isdigit() and len(word) <= 18):
            continue
        n = int(word)
        for names, least, most, title, path in kinds:
            if before in called and before not in names:
                continue
            if least <= n <= most:
                yield Target(
                    title=f"{title} {n:,}",
                    kind="turn",
                    href=f"{place.base}/{path}/{n}",
                    about=f"of {thread.name}",
                )


def _thread(visitor: Visitor, line: ThreadLine, words: tuple[str, ...]) -> Target:
    where = {"project": visitor.project.slug, "thread": line.name}
    return Target(
        title=line.name,
        kind="thread",
        href=reverse("thread", kwargs=where),
        about=f"{line.turns:,} turn{'' if line.turns == 1 else 's'} · {line.status}",
        words=words,
    )
