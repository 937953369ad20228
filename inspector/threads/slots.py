"""Screens of slots: the conversation around an index, and one message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import chat, first_words, pictures
from inspector.drawing.chat import Bubble
from inspector.lists import screens, visits
from inspector.lists.screens import (
    Context,
    LineCount,
    ListRequest,
    Screen,
    ScreenExport,
)
from inspector.lists.visits import ThreadMoment, Visit
from inspector.web import asof, exports, records, stored_searches
from inspector.web.search import ParsedSearch
from memoryhub.errors import InvalidError, NotFoundError
from memoryhub.kernel.search import excerpts, terms
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasure_views import ErasureProof
from memoryhub.queries.lists.cursors import ListBatch, iter_batches
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.queries.threads import forks, slots
from memoryhub.queries.threads.slots import SlotFilter, SlotLine

#: Messages on each side of the chosen message, and messages of an exported batch.
AROUND, SIZE = 50, 50
#: Headers that sandbox a picture; the browser's own viewer needs inline styles.
_SANDBOX = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; sandbox"
}
_KEPT = ("type", "from", "turn", "at_seq", "at_turn")


def _read_filters(request: HttpRequest) -> ParsedSearch:
    """Read the filters of the URL. Raises InvalidError."""
    options: dict[str, Any] = {n: request.GET.get(n, "") for n in ("type", "from")}
    for loc, word in options.items():
        if word and not names.is_valid(word):
            raise InvalidError(code="name", loc=loc)
    return ParsedSearch(
        text="", options=options | {"turn": asof.read_number(request, "turn")}
    )


def _build_list(ask: ListRequest[ThreadMoment]) -> Context:
    row, where = ask.where.row, _build_filter(ask)
    total = slots.count_slots(row, at_seq=ask.where.moment.at_seq)
    chosen = asof.read_number(ask.request, "index")
    last = asof.read_number(ask.request, "to")
    here = max(0, total - 1 if chosen is None else min(chosen, total - 1))
    window = _list_window(row, here, total, where)
    room = chat.PageRoom()
    bubbles = [chat.build_bubble(slot, room) for slot in window]
    if chosen is not None and (wanted := _find_search_terms(ask)):
        bubbles = [
            _mark_bubble(each, wanted) if each.slot.index == here else each
            for each in bubbles
        ]
    return {
        "where": where,
        "chosen": chosen,
        "chosen_last": chosen if last is None else last,
        "count": _count_shown(where, window, total),
        "bubbles": bubbles,
        "proofs": find_proofs(window),
        "ancestors": forks.get_names(row) if any(s.inherited for s in window) else {},
        "links": _build_links(ask.request, window, total),
        "filters": ask.parsed.query(),
    }


def _find_search_terms(ask: ListRequest[ThreadMoment]) -> set[str]:
    """Find the terms of the search that led here; empty without a stored search."""
    handle = ask.request.GET.get(stored_searches.PARAMETER, "")
    if not handle or not isinstance(ask.where, Visit):
        return set()
    stored = stored_searches.find_search(ask.where.visitor, handle)
    if stored is None:
        return set()
    query = SearchRequest.parse(stored["q"], can_exclude=True).query
    found = {term for word in query.wanted for term in word.terms}
    return (found - terms.STOP) or found


def _mark_bubble(bubble: Bubble, wanted: set[str]) -> Bubble:
    """Mark the terms of a search in a message; a folded block with a match opens."""
    stem, blocks = terms.build_stemmer(), list[chat.ChatBlock]()
    for block in bubble.blocks:
        found = excerpts.mark_text(block.text, wanted, stem)
        if found.matches:
            marked = (*first_words.split_excerpt(found),)
            blocks.append(replace(block, marked=marked, folded=False))
        else:
            blocks.append(block)
    return replace(bubble, blocks=(*blocks,))


def _count_shown(
    where: SlotFilter, window: Sequence[SlotLine], total: int
) -> LineCount:
    """Count the messages shown, of all or of those that the filters match."""
    if where == SlotFilter():
        return LineCount(shown=len(window), total=total)
    return LineCount(shown=len(window), more=len(window) >= AROUND)


def _build_surroundings(ask: ListRequest[ThreadMoment]) -> Context:
    """List the exports, with the export of the messages as they came in."""
    path, query = ask.request.path, ask.query()
    messages = f"{path.removesuffix(SCREEN.name)}messages.ndjson?{query}"
    return {"exported": [*exports.list_links(path, query), ("messages", messages)]}


def find_proofs(window: Iterable[SlotLine]) -> dict[int, ErasureProof]:
    """Find the proofs of erased messages, by index. No query if none is erased."""
    gone = {(slot.home, slot.seq): slot.index for slot in window if slot.erased}
    found = erasure_views.list_record_proofs(gone.keys())
    return {gone[place]: proof for place, proof in found.items()}


def _list_window(
    row: Thread, here: int, total: int, where: SlotFilter
) -> tuple[SlotLine, ...]:
    """List the slot at `here`, with up to AROUND matching slots on each side."""
    if where == SlotFilter():
        first = max(0, here - AROUND)
        end = min(total, here + AROUND + 1)
        return slots.list_slots(
            row, start=first, end=end, limit=2 * AROUND + 1, struck=True
        ).items
    before = slots.list_slots(
        row, start=0, end=here, where=where, order="desc", limit=AROUND, struck=True
    )
    after = slots.list_slots(
        row, start=here, end=total, where=where, limit=AROUND + 1, struck=True
    )
    return (*reversed(before.items), *after.items)


def list_batch(
    ask: ListRequest[ThreadMoment],
    after: str | None,
    limit: int,
    *,
    content: bool = False,
) -> ListBatch[SlotLine]:
    """List the slots after a cursor that the filters match."""
    return slots.list_slots(
        ask.where.row,
        where=_build_filter(ask),
        content=content or ask.content,
        at_seq=ask.where.moment.at_seq,
        struck=True,
        after=after,
        limit=limit,
    )


def _build_filter(ask: ListRequest[ThreadMoment]) -> SlotFilter:
    """Build the filter that the URL asks for."""
    options = ask.parsed.options
    return SlotFilter(
        type=options["type"] or None,
        from_name=options["from"] or None,
        turn=options["turn"],
    )


def _build_links(
    request: HttpRequest, window: tuple[SlotLine, ...], total: int
) -> dict[str, str]:
    """Build the queries of the windows before and after; empty where there is none."""
    kept = {k: v for k, v in request.GET.items() if k in _KEPT}
    first = window[0].index if window else 0
    last = window[-1].index if window else total - 1
    older = urlencode({**kept, "index": max(0, first - 1)}) if first > 0 else ""
    newer = urlencode({**kept, "index": last + 1}) if last < total - 1 else ""
    return {"older": older, "newer": newer}


SCREEN = Screen(
    folder="threads/slots",
    label="Conversation",
    scope=screens.THREAD,
    tab="replay",
    read=_read_filters,
    panel=screens.build_newest_panel(
        "threads/slots", _build_list, read=_read_filters, order="last"
    ),
    beyond=("after", "limit", "index", "to"),
    lines=_build_list,
    around=_build_surroundings,
    export=ScreenExport(
        fields=records.SLOT,
        content_fields=records.SLOT_CONTENT,
        record=records.build_slot_record,
        batch=list_batch,
        size=SIZE,
    ),
)


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str, index: int) -> HttpResponse:
    """Show one message: its fields, its handler's view, and all of its content."""
    visit = visits.find(request, project, thread)
    row = visit.row
    slot = slots.get_slot(row, index, at_seq=visit.moment.at_seq)
    whole = request.GET.get("content") == "all"
    room = chat.PageRoom.build_unlimited() if whole else chat.PageRoom()
    home = forks.get_names(row).get(slot.home, "") if slot.inherited else ""
    context = {
        "slot": slot,
        "then": f"?{visit.moment.query}" if visit.moment.query else "",
        "home": home,
        "bubble": chat.build_bubble(slot, room),
        "proofs": find_proofs([slot]),
        "handler": room.build_json_block(
            chat.render_readable_json(records.build_handler_record(thread, slot))
        ),
        "raw": room.build_json_block(
            chat.render_readable_json(records.build_slot_record(thread, slot))
        ),
        "whole": whole,
    }
    return visits.render_page(
        request,
        "inspector/threads/slots/show.html",
        visit,
        context,
        live=False,
        status=410 if slot.erased else 200,
    )


@require_safe
@require_signed_in
def send_picture(
    request: HttpRequest, project: str, thread: str, index: int, part: int
) -> HttpResponse:
    """Send a picture of a message, sandboxed."""
    row = access.require_thread(access.require_visitor(request, project), thread)
    slot = slots.get_slot(row, index)
    message = None if slot.erased else chat.read_message(slot)
    found = message and pictures.find(message, part)
    if not found:
        raise NotFoundError
    kind, raw = found
    return HttpResponse(raw, content_type=kind, headers=_SANDBOX)


@require_safe
@require_signed_in
def export_messages(
    request: HttpRequest, project: str, thread: str
) -> HttpResponseBase:
    """Export the messages in the format of `manage.py import --format chat`."""
    ask = SCREEN.read_request(request, visits.find(request, project, thread))
    batches = iter_batches(
        lambda after: list_batch(ask, after, screens.EXPORT_BATCH, content=True)
    )
    chunks = (
        [slot.content for slot in batch if isinstance(slot.content, dict)]
        for batch in batches
    )
    return exports.stream_ndjson(request, f"{thread}-messages", chunks)
