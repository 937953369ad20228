"""Pages: the page table, with every page, wherever it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import chat
from inspector.drawing.chat import Block, Room
from inspector.drawing.scenes import Scene
from inspector.lists import panels, screens, visits
from inspector.lists.screens import Context, ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.web import asof, refusals, search, shell
from memoryhub.errors import Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasure_views import Proof
from memoryhub.queries.paging import page_uses, page_views
from memoryhub.queries.paging.page_views import LevelView, PageView
from memoryhub.services.paging import operator_pages


def _lines(ask: ListRequest[Visit]) -> Context:
    seq = ask.where.moment.seq
    found = page_views.list_pages(
        ask.where.row, seq=seq, terms=ask.asked.terms, after=ask.after, limit=ask.limit
    )
    # The rest of a list is of the same moment: by then more may have happened.
    more = ask.asked.query(at_seq=seq, after=found.next) if found.next else ""
    return {"listed": found.items, "more": more}


SCREEN = Screen(
    folder="paging/pages",
    scope=screens.THREAD,
    read=screens.searched(search.PAGES, bare="page"),
    examples=("tier:L0", "tier:L1", "level:>0", "pinned:yes", "tokens:>500"),
    lines=_lines,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A level as it stands beside the others."""

    level: LevelView
    block: Block | None
    open: bool


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, page: str) -> HttpResponse:
    """One page: its levels side by side, and why it is where it is."""
    visit = visits.find(request, project, thread)
    view = page_views.get_page(visit.row, page, seq=visit.moment.seq)
    context: dict[str, Any] = {
        "view": view,
        "sides": _sides(request, view),
        "story": [panels.told_step(step) for step in view.history],
        "proof": _proof(visit.row, view) if view.erased else None,
        "naming": page_uses.NAMING,
        "turns": page_uses.TURNS,
        "levels": range(4),
        "editing": visit.place.editor and visit.moment.live,
    }
    status = 410 if view.erased else 200
    return visits.page(
        request,
        "inspector/paging/pages/show.html",
        visit,
        context,
        live=False,
        status=status,
    )


def _proof(row: Thread, view: PageView) -> Proof | None:
    """Which erasure took a level of the page, if one did. Three queries."""
    gone = [level for level in view.levels if level.content is None and level.seq]
    found = erasure_views.list_marks([(row.id, level.seq or 0) for level in gone])
    return next(iter(found.values()), None)


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
        "inspector/paging/pages/delete.html",
        context,
        place=place,
        section="threads",
        status=status,
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
