"""Slots: the conversation around an index, as it was said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import chat, pictures
from inspector.lists import screens, visits
from inspector.lists.screens import Context, Count, Export, ListRequest, Screen
from inspector.lists.visits import Place
from inspector.web import asof, exports, records
from inspector.web.search import ParsedSearch
from memoryhub.errors import InvalidError, NotFoundError
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasure_views import Proof
from memoryhub.queries.lists.cursors import Batch, walk
from memoryhub.queries.threads import forks, slots
from memoryhub.queries.threads.slots import SlotFilter, SlotLine

#: Messages on each side of the one jumped to; those of a batch as JSON.
AROUND, SIZE = 50, 50
#: What a picture may do; a browser that is shown it alone has styles of its own.
_SANDBOX = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; sandbox"
}
_KEPT = ("type", "from", "turn", "at_seq", "at_turn")


def _read(request: HttpRequest) -> ParsedSearch:
    """Read the filters of the URL. Raises InvalidError."""
    options: dict[str, Any] = {n: request.GET.get(n, "") for n in ("type", "from")}
    for loc, word in options.items():
        if word and not names.valid(word):
            raise InvalidError(code="name", loc=loc)
    return ParsedSearch(
        text="", options=options | {"turn": asof.number(request, "turn")}
    )


def _lines(ask: ListRequest[Place]) -> Context:
    row, where = ask.where.row, _filter(ask)
    total = slots.count_slots(row, at_seq=ask.where.moment.at_seq)
    chosen = asof.number(ask.request, "index")
    here = max(0, total - 1 if chosen is None else min(chosen, total - 1))
    window = _window(row, here, total, where)
    room = chat.Room()
    return {
        "where": where,
        "chosen": chosen,
        "count": _count(where, window, total),
        "bubbles": [chat.bubble(slot, room) for slot in window],
        "proofs": find_proofs(window),
        "ancestors": forks.get_names(row) if any(s.inherited for s in window) else {},
        "links": _links(ask.request, window, total),
        "filters": ask.parsed.query(),
    }


def _count(where: SlotFilter, window: Sequence[SlotLine], total: int) -> Count:
    """Count the messages that are shown: of all, or of those that were looked for."""
    if where == SlotFilter():
        return Count(shown=len(window), total=total)
    return Count(shown=len(window), more=len(window) >= AROUND)


def _around(ask: ListRequest[Place]) -> Context:
    """List the exports, with that of the messages as they came in."""
    path, query = ask.request.path, ask.query()
    messages = f"{path.removesuffix(SCREEN.name)}messages.ndjson?{query}"
    return {"exported": [*exports.links(path, query), ("messages", messages)]}


def find_proofs(window: Iterable[SlotLine]) -> dict[int, Proof]:
    """Find by index of an erased message what erased it. No query if none is."""
    gone = {(slot.home, slot.seq): slot.index for slot in window if slot.erased}
    found = erasure_views.list_marks(gone.keys())
    return {gone[place]: proof for place, proof in found.items()}


def _window(
    row: Thread, here: int, total: int, where: SlotFilter
) -> tuple[SlotLine, ...]:
    """List up to AROUND matching slots before an index, it, and as many after."""
    if where == SlotFilter():
        first = max(0, here - AROUND)
        end = min(total, here + AROUND + 1)
        return slots.list_slots(row, start=first, end=end, limit=2 * AROUND + 1).items
    before = slots.list_slots(
        row, start=0, end=here, where=where, order="desc", limit=AROUND
    )
    after = slots.list_slots(row, start=here, end=total, where=where, limit=AROUND + 1)
    return (*reversed(before.items), *after.items)


def batch(
    ask: ListRequest[Place], after: str | None, limit: int, *, content: bool = False
) -> Batch[SlotLine]:
    """List those after a cursor that the filters match."""
    return slots.list_slots(
        ask.where.row,
        where=_filter(ask),
        content=content or ask.content,
        at_seq=ask.where.moment.at_seq,
        after=after,
        limit=limit,
    )


def _filter(ask: ListRequest[Place]) -> SlotFilter:
    """Read which slots the URL wants."""
    options = ask.parsed.options
    return SlotFilter(
        type=options["type"] or None,
        from_name=options["from"] or None,
        turn=options["turn"],
    )


def _links(
    request: HttpRequest, window: tuple[SlotLine, ...], total: int
) -> dict[str, str]:
    """Word the queries of the windows before and after; empty where there is none."""
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
    read=_read,
    panel=screens.newest("threads/slots", _lines, read=_read, order="last"),
    beyond=("after", "limit", "index"),
    lines=_lines,
    around=_around,
    export=Export(
        fields=records.SLOT,
        content_fields=records.SLOT_CONTENT,
        record=records.slot,
        batch=batch,
        size=SIZE,
    ),
)


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, index: int) -> HttpResponse:
    """Show one message: its fields, its handler's view, and all of its content."""
    visit = visits.find(request, project, thread)
    row = visit.row
    slot = slots.get_slot(row, index, at_seq=visit.moment.at_seq)
    whole = request.GET.get("content") == "all"
    room = chat.Room.boundless() if whole else chat.Room()
    home = forks.get_names(row).get(slot.home, "") if slot.inherited else ""
    context = {
        "slot": slot,
        "then": f"?{visit.moment.query}" if visit.moment.query else "",
        "home": home,
        "bubble": chat.bubble(slot, room),
        "proofs": find_proofs([slot]),
        "handler": room.raw(chat.readable(records.handler_view(thread, slot))),
        "raw": room.raw(chat.readable(records.slot(thread, slot))),
        "whole": whole,
    }
    return visits.page(
        request,
        "inspector/threads/slots/show.html",
        visit,
        context,
        live=False,
        status=410 if slot.erased else 200,
    )


@require_safe
@signed_in
def picture(
    request: HttpRequest, project: str, thread: str, index: int, part: int
) -> HttpResponse:
    """Send a picture of a message to be looked at, and to do nothing else."""
    row = access.find_thread(access.find_visitor(request, project), thread)
    slot = slots.get_slot(row, index)
    message = None if slot.erased else chat.message_of(slot)
    found = message and pictures.find(message, part)
    if not found:
        raise NotFoundError
    kind, raw = found
    return HttpResponse(raw, content_type=kind, headers=_SANDBOX)


@require_safe
@signed_in
def messages(request: HttpRequest, project: str, thread: str) -> HttpResponseBase:
    """Send the messages themselves, as `manage.py import --format chat` takes them."""
    ask = SCREEN.ask(request, visits.find(request, project, thread))
    batches = walk(lambda after: batch(ask, after, screens.CHUNK, content=True))
    chunks = (
        [slot.content for slot in batch if isinstance(slot.content, dict)]
        for batch in batches
    )
    return exports.ndjson(request, f"{thread}-messages", chunks)
