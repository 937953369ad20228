"""The palette: contents, and threads, turns, pages, keys and actions by name.

The typed text comes in a request's body, so that it is in no URL and no log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import get_args
from urllib.parse import urlsplit

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.drawing.first_words import cut_to_line
from inspector.palette import contents, previews, targets, typed
from inspector.palette.contents import HitLine
from inspector.palette.project_scans import ProjectScan
from inspector.palette.targets import PaletteTarget
from inspector.palette.typed import TypedSearch
from inspector.web import shell, stored_searches
from inspector.web.visitors import RoleError, Visitor
from memoryhub.errors import Refusal
from memoryhub.kernel.search.ranking import ORDERS, Order
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.people import remembered, subject_lists
from memoryhub.queries.people.subject_lists import LIVING
from memoryhub.queries.search import closest
from memoryhub.queries.search.hits import Closeness
from memoryhub.queries.search.searching import SearchRequest, SearchResult
from memoryhub.queries.threads import name_search
from memoryhub.queries.threads.threads import ThreadLine

#: Most lines of a group.
MAX_LINES = 6
#: People whose lines of memory are searched, first seen last first.
PEOPLE = 100
#: Words before a number that tell what the number counts.
_TURN, _EVENT, _SLOT = ("turn",), ("event", "seq"), ("slot", "message")
_NUMBER_WORDS = {*_TURN, *_EVENT, *_SLOT}
PANELS = ("palette", "found", "said", "preview")
#: Most threads that `in:` may name at once.
_MAX_THREADS = 5

Context = dict[str, object]
TargetGroup = tuple[str, Sequence[PaletteTarget]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOrigin:
    """The place of a search: a project, or a thread, perhaps as of an event."""

    visitor: Visitor
    thread: Thread | None = None
    at_seq: int | None = None
    #: Contents are searched in the whole project.
    wide: bool = True
    order: Order = ORDERS[0]
    #: Handle of the search's address; empty without words to search for.
    address: str = ""

    @property
    def base(self) -> str:
        assert self.thread is not None
        names = {"project": self.visitor.project.slug, "thread": self.thread.name}
        return reverse("thread", kwargs=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentMatches:
    """Hits of a search of contents."""

    lines: Sequence[HitLine]
    #: Result for threads; None while the whole project is searched.
    result: SearchResult | None = None
    scan: ProjectScan | None = None
    #: Whether hits differ in how close they are to the typed words.
    has_classes: bool = False

    @property
    def lists(self) -> list[tuple[Closeness, list[HitLine]]]:
        """Return the hits by how close they are to the typed words, closest first."""
        return [
            (name, [line for line in self.lines if line.closeness == name])
            for name in get_args(Closeness)
        ]

    @property
    def first(self) -> HitLine | None:
        """Return the hit that stands first on the page."""
        return next((line for _, lines in self.lists for line in lines), None)

    @property
    def awaits_best(self) -> bool:
        """Tell whether closer hits than those found may still come."""
        return bool(self.has_classes and self.scan and self.scan.awaits_closer)

    @property
    def lacks_phrase(self) -> bool:
        """Tell whether hits were found, but none with the words side by side.

        In a project this is known once all threads that may hold them were searched.
        """
        if not self.has_classes:
            return False
        if self.scan is None:
            return bool(self.lines) and not self.lists[0][1]
        if not self.scan.ended and self.scan.closest == "phrase":
            return False
        return self.scan.total > 0 and not self.scan.phrase_hits


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show the palette as a page of its own."""
    visitor = access.require_visitor(request, project)
    context = _build_context(request, visitor, at_once=True)
    context["preview"] = _render_first_preview(
        visitor, context["heard"], str(context["contents"])
    )
    template = "inspector/palette/show.html"
    return shell.render_page(
        request, template, context, visitor=visitor, section="search"
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in_panel
def show_panel(request: HttpRequest, project: str, panel: str) -> HttpResponse:
    """Show the palette's dialog, its results, more results, or one preview."""
    visitor = access.require_visitor(request, project)
    if panel not in PANELS:
        raise Http404
    if panel == "preview":
        context = _build_preview(request.POST, visitor)
    else:
        context = _build_context(request, visitor, at_once=panel == "said")
    context["visitor"] = visitor
    answer = render(request, f"inspector/palette/_{panel}.html", context)
    answer.headers["MH-Panel"] = "1"
    page = reverse("search", kwargs={"project": project})
    if panel == "found" and urlsplit(_find_return_page(request)).path == page:
        # The address of the page is that of the search which the page now shows.
        handle = context["address"]
        query = f"?{stored_searches.PARAMETER}={handle}" if handle else ""
        answer.headers["MH-Address"] = f"{page}{query}"
    return answer


def _build_context(request: HttpRequest, visitor: Visitor, *, at_once: bool) -> Context:
    """Build the context of the typed text's results.

    At most nine queries for names, or ten in a thread, and the queries for contents.
    With `at_once` a project's contents are searched now, else by later requests.
    """
    handle = request.GET.get(stored_searches.PARAMETER, "")
    stored = stored_searches.find_search(visitor, handle) if handle else None
    sent = request.POST or stored or request.GET
    place = _read_origin(sent, visitor)
    # Words in an address are not searched for.
    read = typed.parse_typed("" if sent is request.GET else sent.get("q", ""))
    address = _store_search(place, read)
    groups = [] if read.error else [*_iter_groups(place, read)]
    return {
        "typed": read,
        "contents": read.contents,
        "groups": groups,
        "heard": _search_contents(
            replace(place, address=address), read, sent, at_once=at_once
        ),
        "address": address,
        "unstored": bool(handle) and stored is None and not request.POST,
        "count": sum(len(found) for _, found in groups),
        "place": place,
        "preview": "",
        "onward": _find_return_page(request),
    }


def _store_search(place: SearchOrigin, read: TypedSearch) -> str:
    """Store a search of contents; return its handle, or empty for another search."""
    if not read.contents or _is_numbered(read.words):
        return ""
    narrow = not place.wide and place.at_seq is not None
    return stored_searches.store_search(
        place.visitor,
        {
            "q": read.text,
            "order": place.order,
            "scope": "project" if place.wide else "thread",
            "thread": place.thread.name if place.thread else "",
            "at_seq": str(place.at_seq) if narrow else "",
        },
    )


def _read_origin(sent: Mapping[str, str], visitor: Visitor) -> SearchOrigin:
    """Read the place of the search; a thread that the visitor may not see is none."""
    place = SearchOrigin(visitor=visitor, order=_parse_order(sent.get("order", "")))
    if name := sent.get("thread", ""):
        # Names are no content, so no read of the thread is audited.
        looking = replace(visitor, reading=None)
        with suppress(Refusal, RoleError):
            thread = access.require_thread(looking, name)
            wide = sent.get("scope") == "project"
            place = replace(place, thread=thread, wide=wide)
    seq = _parse_number(sent.get("at_seq", ""))
    if place.thread is None or seq is None:
        return place
    return replace(place, at_seq=min(seq, place.thread.head_seq))


def _parse_order(word: str) -> Order:
    return next((order for order in ORDERS if order == word), ORDERS[0])


def _parse_number(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and len(text) <= 18
    return int(text) if plain else None


def _find_return_page(request: HttpRequest) -> str:
    """Return the page below the dialog, to which the choice of a theme returns."""
    below = urlsplit(request.headers.get("HX-Current-URL", request.get_full_path()))
    return f"{below.path}?{below.query}" if below.query else below.path


def _search_contents(
    place: SearchOrigin, read: TypedSearch, sent: Mapping[str, str], *, at_once: bool
) -> ContentMatches | None:
    """Search contents; None if the typed text does not search contents."""
    if not read.contents or _is_numbered(read.words):
        return None
    limit = contents.EACH if place.wide else contents.SHOWN
    wanted = SearchRequest.parse(
        read.contents, order=place.order, limit=limit, can_exclude=True
    )
    wanted = replace(wanted, where=FactFilter(valid_at=clock.now()))
    if place.thread is not None and not place.wide:
        rows = [place.thread]
    elif names := wanted.query.filters.threads:
        rows = [*_iter_named_threads(place.visitor, names)]
    else:
        lines, scan = list[HitLine](), ProjectScan.from_post(sent)
        if at_once:
            lines, scan = contents.search_project(
                place.visitor, wanted, scan, address=place.address
            )
        return ContentMatches(
            lines=lines, scan=scan, has_classes=closest.has_classes(wanted)
        )
    at_seq = None if place.wide else place.at_seq
    lines, result = contents.search_threads(
        place.visitor, rows, wanted, at_seq=at_seq, address=place.address
    )
    return ContentMatches(
        lines=lines, result=result, has_classes=closest.has_classes(wanted)
    )


def _is_numbered(words: Sequence[str]) -> bool:
    """Tell whether the words name something by its number: `turn 31`."""
    kind, number = words if len(words) == 2 else ("", "")
    return kind.lower() in _NUMBER_WORDS and number.isdigit()


def _iter_named_threads(visitor: Visitor, names: Iterable[str]) -> Iterator[Thread]:
    """Iterate over the threads of these names that the visitor may see."""
    for name in sorted(names)[:_MAX_THREADS]:
        with suppress(Refusal, RoleError):
            yield access.require_thread(visitor, name)


def _render_first_preview(visitor: Visitor, heard: object, words: str) -> str:
    """Render the first hit's preview, for browsers without scripts."""
    line = heard.first if isinstance(heard, ContentMatches) else None
    if line is None or not line.hit.page:
        return ""
    row = access.require_thread(visitor, line.thread)
    found = previews.build_preview(
        row, line.hit.page, words, at_seq=line.at_seq, then=line.then_seq
    )
    return render_to_string("inspector/palette/_preview.html", found)


def _build_preview(sent: Mapping[str, str], visitor: Visitor) -> Context:
    """Build the context of the preview of the page that the request names."""
    row = access.require_thread(visitor, sent.get("thread", ""))
    return previews.build_preview(
        row,
        sent.get("page", ""),
        typed.parse_typed(sent.get("q", "")).contents,
        at_seq=_parse_number(sent.get("at_seq", "")),
        then=_parse_number(sent.get("seq", "")),
    )


def _iter_groups(place: SearchOrigin, read: TypedSearch) -> Iterator[TargetGroup]:
    """Iterate over results in groups by kind; empty groups are left out."""
    if read.text and not (read.words or read.terms):
        # Nothing has a phrase or a role as its name.
        return
    words = tuple(word.lower() for word in read.words)
    # Nearly every name has a single letter.
    longer = [word for word in read.words if len(word) > 1 or word.isdigit()]
    threads = name_search.list_threads(
        place.visitor.project,
        longer or read.words,
        terms=read.terms,
        now=clock.now(),
        limit=MAX_LINES,
        restricted=place.visitor.officer,
    )
    found: list[TargetGroup] = [
        ("People", [] if read.terms else _list_people(place.visitor, longer, words)),
        (
            "Threads" if read.text else "Recent threads",
            [_build_thread_target(place.visitor, line, words) for line in threads],
        ),
    ]
    if not read.terms:
        found += _iter_target_groups(place, read.words, words)
    yield from ((title, lines) for title, lines in found if lines)


def _list_people(
    visitor: Visitor, longer: Sequence[str], words: tuple[str, ...]
) -> list[PaletteTarget]:
    """List people whose line of memory has all words, as the list of people shows it.

    Five queries; the home threads of those found are audited as read.
    """
    if not longer:
        return []
    newest = subject_lists.list_newest(visitor.project, among=LIVING, limit=PEOPLE)
    lines = remembered.find_first_lines(newest, restricted=visitor.officer)
    found = list[PaletteTarget]()
    for person in newest:
        shown = cut_to_line(lines[person].text) if person in lines else ""
        if len(found) < MAX_LINES and all(each in shown.lower() for each in words):
            visitor.note_threads([lines[person].home])
            names = {"project": visitor.project.slug, "subject": person}
            found.append(
                PaletteTarget(
                    title=shown,
                    kind="go",
                    href=reverse("subject", kwargs=names),
                    about="person",
                    words=words,
                )
            )
    return found


def _iter_target_groups(
    place: SearchOrigin, typed: tuple[str, ...], words: tuple[str, ...]
) -> Iterator[TargetGroup]:
    """Iterate over groups of the thread's parts, of actions, and of pages to open."""
    thread = place.thread
    if thread is not None and words:
        yield (
            "Turns, pages and keys",
            [*_iter_thread_parts(place, thread, typed, words)],
        )
    offered = [*targets.iter_pages(place.visitor)]
    if not words:
        # Themes are offered only for typed words.
        offered = [each for each in offered if not each.theme]
    if thread is not None:
        of_thread = targets.iter_thread_targets(
            place.visitor, thread, at_seq=place.at_seq
        )
        offered = [*of_thread, *offered]
    for title, kind in (("Do", "do"), ("Go to", "go")):
        lines = (each for each in offered if each.kind == kind)
        yield title, targets.list_matching(lines, words, MAX_LINES)


def _iter_thread_parts(
    place: SearchOrigin, thread: Thread, typed: Sequence[str], words: tuple[str, ...]
) -> Iterator[PaletteTarget]:
    """Iterate over numbered parts of a thread, then its pages and keys by name."""
    yield from _iter_numbered(place, thread, words)
    base = place.base
    for page in name_search.list_pages(thread, typed, limit=MAX_LINES):
        yield PaletteTarget(
            title=page.page_id,
            kind="page",
            href=f"{base}/pages/{page.page_id}",
            about=f"page, {page.type} · {page.tokens:,} tokens",
            words=words,
        )
    now = clock.now()
    for key in name_search.list_keys(thread, typed, now=now, limit=MAX_LINES):
        href, about = f"{base}/keys/{key}", "key"
        yield PaletteTarget(title=key, kind="key", href=href, about=about, words=words)


def _iter_numbered(
    place: SearchOrigin, thread: Thread, words: Sequence[str]
) -> Iterator[PaletteTarget]:
    """Iterate over the turn, event and message of each typed number."""
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
            # Among other words a number is a part of a text.
            if before not in (names if before in called or len(words) > 1 else ("",)):
                continue
            if least <= n <= most:
                yield PaletteTarget(
                    title=f"{title} {n:,}",
                    kind="turn",
                    href=f"{place.base}/{path}/{n}",
                    about=f"of {thread.name}",
                )


def _build_thread_target(
    visitor: Visitor, line: ThreadLine, words: tuple[str, ...]
) -> PaletteTarget:
    where = {"project": visitor.project.slug, "thread": line.name}
    return PaletteTarget(
        title=line.title,
        kind="thread",
        href=reverse("thread", kwargs=where),
        about=f"{line.turns:,} turn{'' if line.turns == 1 else 's'} · {line.status}",
        words=words,
    )
