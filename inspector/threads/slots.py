from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import chat
from inspector.drawing.scenes import Scene
from inspector.live import panels, visits
from inspector.web import asof, exports, records, shell
from memoryhub.errors import InvalidError
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasure_views import Proof
from memoryhub.queries.lists.cursors import walk
from memoryhub.queries.threads import forks, slots
from memoryhub.queries.threads.slots import SlotFilter, SlotLine

#: Messages on each side of the one jumped to; rows of a batch of an export.
AROUND, CHUNK = 50, 200


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The conversation: messages around an index, as they were said."""
    visit, where = visits.find(request, project, thread), _where(request)
    row, moment = visit.row, visit.moment
    total = slots.count_slots(row, at_seq=moment.at_seq)
    asked = asof.number(request, "index")
    here = max(0, total - 1 if asked is None else min(asked, total - 1))
    window = _window(row, here, total, where)
    room = chat.Room()
    context: dict[str, Any] = {
        "where": where,
        "chosen": asked,
        "total": total,
        "bubbles": [chat.bubble(slot, room) for slot in window],
        "proofs": _proofs(window),
        "ancestors": forks.get_names(row) if any(s.inherited for s in window) else {},
        "links": _links(request, window, total),
        "filters": urlencode(_filters(where)),
    }
    return visits.page(request, "inspector/threads/slots/index.html", visit, context)


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, index: int) -> HttpResponse:
    """One message: its fields, what its handler was told, and all of its content."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    slot = slots.get_slot(row, index)
    whole = request.GET.get("content") == "all"
    room = chat.Room.boundless() if whole else chat.Room()
    home = forks.get_names(row).get(slot.home, "") if slot.inherited else ""
    context = {
        **panels.shared(Scene(thread=row)),
        "slot": slot,
        "home": home,
        "bubble": chat.bubble(slot, room),
        "proofs": _proofs([slot]),
        "handler": room.raw(records.handler_view(thread, slot)),
        "raw": room.raw(records.slot(thread, slot)),
        "whole": whole,
    }
    return shell.page(
        request,
        "inspector/threads/slots/show.html",
        context,
        place=place,
        section="threads",
        status=410 if slot.erased else 200,
    )


@require_safe
@signed_in
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """The messages that the filters match, oldest first; content only if asked for."""
    visit, where = visits.find(request, project, thread), _where(request)
    row, at_seq = visit.row, visit.moment.at_seq
    content = request.GET.get("content") == "1"
    after = request.GET.get("after") or None
    return exports.answer(
        request,
        kind,
        f"{thread}-slots",
        heading=records.SLOT + (records.SLOT_CONTENT if content else ()),
        record=lambda slot: records.slot(thread, slot, content=content),
        part=lambda: slots.list_slots(
            row, where=where, content=content, at_seq=at_seq, after=after
        ),
        parts=lambda: _batches(row, where, at_seq, content=content),
    )


@require_safe
@signed_in
def messages(request: HttpRequest, project: str, thread: str) -> HttpResponseBase:
    """The messages themselves, as `manage.py import --format chat` takes them."""
    visit, where = visits.find(request, project, thread), _where(request)
    at_seq = visit.moment.at_seq
    chunks = (
        [slot.content for slot in batch if isinstance(slot.content, dict)]
        for batch in _batches(visit.row, where, at_seq, content=True)
    )
    return exports.ndjson(request, f"{thread}-messages", chunks)


def _proofs(window: Iterable[SlotLine]) -> dict[int, Proof]:
    """By index of an erased message, what erased it. No query if none is."""
    gone = {(slot.home, slot.seq): slot.index for slot in window if slot.erased}
    found = erasure_views.list_marks(gone.keys())
    return {gone[place]: proof for place, proof in found.items()}


def _window(
    row: Thread, here: int, total: int, where: SlotFilter
) -> tuple[SlotLine, ...]:
    """Up to AROUND matching slots before an index, it, and as many after."""
    if where == SlotFilter():
        first = max(0, here - AROUND)
        end = min(total, here + AROUND + 1)
        return slots.list_slots(row, start=first, end=end, limit=2 * AROUND + 1).items
    before = slots.list_slots(
        row, start=0, end=here, where=where, order="desc", limit=AROUND
    )
    after = slots.list_slots(row, start=here, end=total, where=where, limit=AROUND + 1)
    return (*reversed(before.items), *after.items)


def _batches(
    row: Thread, where: SlotFilter, at_seq: int | None, *, content: bool
) -> Iterator[tuple[SlotLine, ...]]:
    return walk(
        lambda after: slots.list_slots(
            row, where=where, content=content, at_seq=at_seq, after=after, limit=CHUNK
        )
    )


def _where(request: HttpRequest) -> SlotFilter:
    typed, sender = request.GET.get("type", ""), request.GET.get("from", "")
    for loc, word in (("type", typed), ("from", sender)):
        if word and not names.valid(word):
            raise InvalidError(code="name", loc=loc)
    return SlotFilter(
        type=typed or None,
        from_name=sender or None,
        turn=asof.number(request, "turn"),
    )


def _filters(where: SlotFilter) -> dict[str, Any]:
    named = {"type": where.type, "from": where.from_name, "turn": where.turn}
    return {name: value for name, value in named.items() if value is not None}


def _links(
    request: HttpRequest, window: tuple[SlotLine, ...], total: int
) -> dict[str, str]:
    """Queries of the windows before and after this one, empty where there is none."""
    kept = {k: v for k, v in request.GET.items() if k in _KEPT}
    first = window[0].index if window else 0
    last = window[-1].index if window else total - 1
    older = urlencode({**kept, "index": max(0, first - 1)}) if first > 0 else ""
    newer = urlencode({**kept, "index": last + 1}) if last < total - 1 else ""
    return {"older": older, "newer": newer}


_KEPT = ("type", "from", "turn", "at_seq", "at_turn")
