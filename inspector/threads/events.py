"""Events: those that a search finds, newest first; rare ones batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import chat
from inspector.drawing.scenes import Scene
from inspector.lists import panels, screens, visits
from inspector.lists.screens import Context, Count, Export, ListRequest, Screen
from inspector.lists.visits import Place
from inspector.web import records, search
from memoryhub.errors import NotFoundError
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.queries.memory import restorations
from memoryhub.queries.replay import states
from memoryhub.queries.threads import event_search, events, timeline
from memoryhub.queries.threads.event_search import Stretch
from memoryhub.queries.threads.events import EventLine, Order
from memoryhub.queries.threads.timeline import Moment


def _lines(ask: ListRequest[Place]) -> Context:
    found = find(ask, ask.after, limit=ask.limit, order="desc")
    return {
        "found": found,
        "count": Count(shown=len(found.lines), more=found.next is not None),
        "shown": [panels.event_row(line) for line in found.lines],
        "more": ask.query(after=found.next) if found.next else "",
    }


def _batch(ask: ListRequest[Place], after: str | None, limit: int) -> Batch[EventLine]:
    found = find(ask, after, limit=limit, order="asc", content=ask.content)
    return Batch(items=found.lines, next=found.next)


def find(
    ask: ListRequest[Place],
    after: str | None,
    *,
    limit: int,
    order: Order,
    content: bool = True,
    terms: tuple[SearchTerm, ...] = (),
) -> Stretch:
    """Find events after a cursor by the search, and these terms."""
    return event_search.search_events(
        ask.where.row,
        terms=(*ask.parsed.terms, *terms),
        now=ask.now,
        at_seq=ask.where.moment.at_seq,
        after=after,
        limit=limit,
        order=order,
        content=content,
    )


SCREEN = Screen(
    folder="threads/events",
    scope=screens.THREAD,
    tab="replay",
    read=screens.searched(search.EVENTS, bare="type"),
    panel=screens.newest("threads/events", _lines),
    lines=_lines,
    export=Export(
        fields=records.EVENT,
        content_fields=records.EVENT_CONTENT,
        record=records.event,
        batch=_batch,
    ),
)


def bubble_of(
    thread: Thread, line: EventLine, moment: Moment, room: chat.Room | None = None
) -> chat.Bubble | None:
    """Draw the message that an event brought, if it did. No query."""
    if line.type != "slot.appended":
        return None
    slot = timeline.slot_of(thread, line, turn=moment.state.turn_count)
    return chat.bubble(slot, room or chat.Room())


#: What takes records at somebody's wish.
_ORDER = "records.erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """Hold the checkpoint from before a restore, and the form's query."""

    number: int
    query: str


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, seq: int) -> HttpResponse:
    """Show one event: what stands in the journal, and the difference it made."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    if not 1 <= seq <= row.head_seq:
        raise NotFoundError
    line = events.get_event(row, seq)
    moment = timeline.get_moment(row, seq)
    whole = request.GET.get("content") == "all"
    room = chat.Room.boundless() if whole else chat.Room()
    context = {
        "event": panels.event_row(line),
        **panels.named_context(row, line),
        "moment": moment,
        "message": bubble_of(row, line, moment, room),
        "raw": room.raw(chat.readable(records.event(thread, line))),
        "proof": erasure_views.get_mark(row.id, line.seq) if line.erased else None,
        "order": line.body.get("erasure") if line.type == _ORDER else None,
        "undo": _undo(row, line) if visitor.editor else None,
        "drift": restorations.get_drift(row, line, seen=_seen(request)),
    }
    template = "inspector/threads/events/show.html"
    scene = Scene(thread=row, at_seq=seq)
    return visits.thread_page(request, template, visitor, row, context, scene=scene)


def _undo(row: Thread, line: EventLine) -> Undo | None:
    """Find what takes a restore back, while the checkpoint that it took is there."""
    if line.type != CheckpointRestored.event_type:
        return None
    state = states.state_of(row)
    before = line.body["before"]
    if state.memory.live(before) is None:
        return None
    parts = [("part", part) for part in line.body["parts"]]
    return Undo(number=state.seq_of(before), query=urlencode(parts))


def _seen(request: HttpRequest) -> int:
    """Read the head that a preview was judged by; 0 if none was."""
    text = request.GET.get("seen", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
