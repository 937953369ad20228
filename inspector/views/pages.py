from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from inspector import access, asof, chat, panels, refusals, search, shell
from inspector.access import signed_in
from inspector.chat import Block, Room
from inspector.panels import Scene
from inspector.places import Place
from inspector.search import SearchError
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries import page_views
from memoryhub.queries.page_views import LevelView, PageView
from memoryhub.queries.terms import Term
from memoryhub.services import operator_pages

#: Searches that are a click away.
EXAMPLES = ("tier:L0", "tier:L1", "level:>0", "pinned:yes", "tokens:>500")
#: What an editor does to a page by a button; deleting asks first.
VERBS = ("pin", "unpin", "map", "evict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the URL asks of the table."""

    text: str
    terms: tuple[Term, ...] = ()
    error: SearchError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A level as it stands beside the others."""

    level: LevelView
    block: Block | None
    open: bool


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The page table: every page, wherever it is."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    moment, asked = asof.read(request, row), _asked(request)
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row, at_seq=moment.at_seq)),
        "moved": moment,
        "newer": moment.head - moment.seq,
        "asked": asked,
        "examples": EXAMPLES,
        "search": urlencode({"q": asked.text}) if asked.text else "",
        **_batch(request, row, asked, moment.seq),
    }
    return shell.page(
        request,
        "inspector/pages/index.html",
        context,
        place=place,
        section="threads",
        live=True,
        status=422 if asked.error else 200,
    )


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, page: str) -> HttpResponse:
    """One page: its levels side by side, and why it is where it is."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    return _shown(request, place, row, page)


@require_POST
@signed_in
def act(
    request: HttpRequest, project: str, thread: str, page: str, verb: str
) -> HttpResponse:
    """Pin, unpin, map or evict a page; a refusal stands above the page."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    if verb not in VERBS:
        raise Http404
    place.require(Membership.Role.EDITOR)
    try:
        if verb == "map":
            level = _level(request.POST.get("level", "0"))
            operator_pages.map_page(row, page, actor=place.actor, level=level)
        else:
            getattr(operator_pages, verb)(row, page, actor=place.actor)
    except Refusal as refusal:
        if refusals.status_of(refusal) in (404, 410):
            raise
        return _shown(request, place, row, page, problem=refusal)
    return HttpResponseRedirect(_url(project, thread, page))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def delete(request: HttpRequest, project: str, thread: str, page: str) -> HttpResponse:
    """Delete a page for good, once its id is typed."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    place.require(Membership.Role.EDITOR)
    view = page_views.get_page(row, page, seq=row.head_seq)
    problem: Refusal | str | None = None
    if request.method == "POST":
        try:
            if request.POST.get("typed", "").strip() == page:
                operator_pages.delete(row, page, actor=place.actor)
                url = reverse("pages", kwargs={"project": project, "thread": thread})
                return HttpResponseRedirect(url)
            problem = "That is not the id of this page."
        except Refusal as refusal:
            problem = refusal
    refusal_ = problem if isinstance(problem, Refusal) else None
    context = {
        **panels.shared(Scene(thread=row)),
        "view": view,
        "problem": refusal_.sentence if refusal_ else problem,
    }
    status = refusals.status_of(refusal_) if refusal_ else 422 if problem else 200
    return shell.page(
        request,
        "inspector/pages/delete.html",
        context,
        place=place,
        section="threads",
        status=status,
    )


def _batch(request: HttpRequest, row: Thread, asked: Asked, seq: int) -> dict[str, Any]:
    if asked.error:
        return {"listed": (), "more": ""}
    found = page_views.list_pages(
        row,
        seq=seq,
        terms=asked.terms,
        after=request.GET.get("after") or None,
        limit=asof.limit(request),
    )
    # The rest of a list is of the same moment: by then more may have happened.
    kept = {"q": asked.text, "at_seq": str(seq), "after": found.next or ""}
    return {"listed": found.items, "more": urlencode(kept) if found.next else ""}


def _shown(
    request: HttpRequest,
    place: Place,
    row: Thread,
    page: str,
    *,
    problem: Refusal | None = None,
) -> HttpResponse:
    moment = asof.read(request, row)
    view = page_views.get_page(row, page, seq=moment.seq)
    status = 410 if view.erased else 200
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row, at_seq=moment.at_seq)),
        "moved": moment,
        "newer": moment.head - moment.seq,
        "view": view,
        "sides": _sides(request, view),
        "story": [panels.told_step(step) for step in view.history],
        "problem": problem.sentence if problem else "",
        "levels": range(4),
        "editing": place.editor and moment.live,
    }
    return shell.page(
        request,
        "inspector/pages/show.html",
        context,
        place=place,
        section="threads",
        status=refusals.status_of(problem) if problem else status,
    )


def _sides(request: HttpRequest, view: PageView) -> list[Side]:
    whole = request.GET.get("content") == "all"
    room = Room.boundless() if whole else Room()
    asked = asof.number(request, "level", most=3)
    chosen = view.line.level if asked is None else asked
    return [
        Side(level=level, block=_block(level, room), open=level.level == chosen)
        for level in view.levels
    ]


def _block(level: LevelView, room: Room) -> Block | None:
    if level.content is None:
        return None
    plain = isinstance(level.content, str)
    text = level.content if plain else chat.pretty(level.content)
    shown = room.take(text)
    cut = len(text) if len(shown) < len(text) else 0
    return Block(kind="text" if plain else "json", text=shown, cut=cut)


def _asked(request: HttpRequest) -> Asked:
    text = request.GET.get("q", "").strip()
    try:
        return Asked(text=text, terms=search.parse(text, search.PAGES, bare="page"))
    except SearchError as error:
        return Asked(text=text, error=error)


def _level(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise InvalidError(loc="level")
    return int(text)


def _url(project: str, thread: str, page: str) -> str:
    place = {"project": project, "thread": thread, "page": page}
    return reverse("page", kwargs=place)
