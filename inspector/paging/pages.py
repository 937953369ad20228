"""Screens of pages: the page table with every page, and one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import chat, first_words, lifelines
from inspector.drawing.chat import ChatBlock, PageRoom
from inspector.lists import panels, screens, visits
from inspector.lists.screens import Context, LineCount, ListRequest, Screen
from inspector.lists.visits import ThreadMoment, Visit
from inspector.web import asof, refusals, search
from memoryhub.errors import InvalidError, PageErasedError, Refusal
from memoryhub.kernel.messages import media
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasure_views import ErasureProof
from memoryhub.queries.paging import page_texts, page_uses, page_views
from memoryhub.queries.paging.page_views import LevelView, PageView
from memoryhub.services.paging import operator_pages

#: Most tokens of a page that the list opens for its first words.
_MAX_TOKENS_OPENED = 16_000
_PROBLEMS: refusals.Texts = {"typed": "That is not the id of this page."}


def _build_list(ask: ListRequest[ThreadMoment]) -> Context:
    seq = ask.where.moment.seq
    found = page_views.list_pages(
        ask.where.row, seq=seq, terms=ask.parsed.terms, after=ask.after, limit=ask.limit
    )
    # The rest of the list shows the same moment, although the thread may have moved on.
    more = ask.parsed.query(at_seq=seq, after=found.next) if found.next else ""
    count = LineCount(shown=len(found.items), more=found.next is not None)
    places = {
        line.entry.page_id: line.entry.full.location
        for line in found.items
        if line.entry.full.tokens <= _MAX_TOKENS_OPENED
    }
    texts = page_texts.get_near_texts(ask.where.row, places)
    listed = [
        (line, first_words.build_page_words(*texts.get(line.entry.page_id, (None, 0))))
        for line in found.items
    ]
    return {"listed": listed, "more": more, "count": count}


SCREEN = Screen(
    folder="paging/pages",
    scope=screens.THREAD,
    tab="paging",
    read=screens.build_search_reader(search.PAGES, bare="page"),
    examples=("tier:L0", "tier:L1", "level:>0", "pinned:yes", "tokens:>500"),
    panel=screens.build_newest_panel("paging/pages", _build_list),
    lines=_build_list,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSide:
    """Level of a page beside its other levels."""

    level: LevelView
    block: ChatBlock | None
    open: bool


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str, page: str) -> HttpResponse:
    """Show one page: its levels side by side, and its history."""
    visit = visits.find(request, project, thread)
    try:
        view = page_views.get_page(visit.row, page, seq=visit.moment.seq)
    except PageErasedError:
        return _render_deleted(request, visit, page)
    context: dict[str, Any] = {
        "view": view,
        "sides": _list_sides(request, view),
        "then": f"?{visit.moment.query}" if visit.moment.query else "",
        "line": lifelines.draw(
            view.life,
            head=view.head,
            here=None if visit.moment.live else view.clock,
        ),
        "seen_in": _find_request_turn(view, visit.row),
        "axis": lifelines.place_ticks(view.ticks, head=view.head),
        "story": [panels.build_step_row(step) for step in view.history],
        "proof": _find_proof(visit.row, view) if view.erased else None,
        "naming": page_uses.NAMING,
        "turns": page_uses.TURNS,
        "levels": range(4),
        "editing": visit.editable,
    }
    status = 410 if view.erased else 200
    return visits.render_page(
        request,
        "inspector/paging/pages/show.html",
        visit,
        context,
        status=status,
    )


def _render_deleted(request: HttpRequest, visit: Visit, page: str) -> HttpResponse:
    found = page_views.get_deleted(visit.row, page)
    context = {
        "page_id": page,
        "deleted": found.life.find_last("deleted", up_to=found.head),
        "line": lifelines.draw(found.life, head=found.head, here=None),
        "axis": lifelines.place_ticks(found.ticks, head=found.head),
    }
    return visits.render_page(
        request, "inspector/paging/pages/deleted.html", visit, context, status=410
    )


def _find_request_turn(view: PageView, row: Thread) -> int | None:
    """Find the turn whose request a message answers, or the first that could hold it.

    None without such a turn, and for pages that are no messages.
    """
    entry = view.entry
    there = entry.slot is not None and 0 < entry.turn <= row.turn_count
    return entry.turn if there else None


def _find_proof(row: Thread, view: PageView) -> ErasureProof | None:
    """Find the proof of the erasure that took a level of the page. Three queries."""
    gone = [level for level in view.levels if level.content is None and level.seq]
    found = erasure_views.list_record_proofs(
        [(row.id, level.seq or 0) for level in gone]
    )
    return next(iter(found.values()), None)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def delete(request: HttpRequest, project: str, thread: str, page: str) -> HttpResponse:
    """Delete a page for good, once the operator typed its id."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    view = page_views.get_page(row, page, seq=row.head_seq)
    refusal: Refusal | None = None
    if request.method == "POST":
        try:
            if request.POST.get("typed", "").strip() != page:
                raise InvalidError(loc="typed")
            operator_pages.delete_page(row, page, actor=visitor.actor)
            url = reverse("pages", kwargs={"project": project, "thread": thread})
            return HttpResponseRedirect(url)
        except Refusal as refused:
            refusal = refused
    context = {
        "view": view,
        "problem": refusals.get_error_text(refusal, _PROBLEMS, numbers=True),
    }
    return visits.render_thread_page(
        request,
        "inspector/paging/pages/delete.html",
        visitor,
        row,
        context,
        status=refusals.get_status(refusal),
    )


def _list_sides(request: HttpRequest, view: PageView) -> list[LevelSide]:
    whole = request.GET.get("content") == "all"
    room = PageRoom.build_unlimited() if whole else PageRoom()
    level = asof.read_number(request, "level", most=3)
    chosen = view.line.level if level is None else level
    return [
        LevelSide(level=each, block=_build_block(each, room), open=each.level == chosen)
        for each in view.levels
    ]


def _build_block(level: LevelView, room: PageRoom) -> ChatBlock | None:
    if level.content is None:
        return None
    plain = isinstance(level.content, str)
    found = level.content
    text = media.remove_base64(found) if plain else chat.render_readable_json(found)
    shown = room.take(text)
    cut = len(text) if len(shown) < len(text) else 0
    return ChatBlock(kind="text" if plain else "json", text=shown, cut=cut)
