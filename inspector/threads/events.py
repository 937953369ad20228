"""Screens of events: a search, newest first and batch by batch, and one event."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import chat, first_words, summaries
from inspector.drawing.first_words import FirstWords
from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels, screens, visits
from inspector.lists.screens import (
    Context,
    LineCount,
    ListRequest,
    Screen,
    ScreenExport,
)
from inspector.lists.visits import ThreadMoment, Visit
from inspector.web import asof, records, search
from memoryhub.errors import NotFoundError
from memoryhub.kernel.knowledge.facts import FactRetracted
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.state.events import ThreadForked, ThreadReopened
from memoryhub.kernel.state.page_events import PagesEvicted
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.queries.memory import restorations
from memoryhub.queries.memory.restorations import Drift
from memoryhub.queries.paging import page_texts
from memoryhub.queries.replay import states
from memoryhub.queries.threads import event_search, events, timeline
from memoryhub.queries.threads.event_search import EventStretch
from memoryhub.queries.threads.events import Order, ThreadEventLine
from memoryhub.queries.threads.timeline import TimelineMoment

#: Pages listed of those that left together.
DEPARTED = 50
#: Assertions listed of those that were retracted together.
RETRACTED = 50


def _build_list(ask: ListRequest[ThreadMoment]) -> Context:
    found = find_events(ask, ask.after, limit=ask.limit, order="desc")
    return {
        "found": found,
        "count": LineCount(shown=len(found.lines), more=found.next is not None),
        "shown": [panels.build_event_row(ask.where.row, line) for line in found.lines],
        "more": ask.query(after=found.next) if found.next else "",
    }


def _list_batch(
    ask: ListRequest[ThreadMoment], after: str | None, limit: int
) -> ListBatch[ThreadEventLine]:
    found = find_events(ask, after, limit=limit, order="asc", content=ask.content)
    return ListBatch(items=found.lines, next=found.next)


def find_events(
    ask: ListRequest[ThreadMoment],
    after: str | None,
    *,
    limit: int,
    order: Order,
    content: bool = True,
    terms: tuple[SearchTerm, ...] = (),
) -> EventStretch:
    """Find events after a cursor by the search and further terms."""
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
    read=screens.build_search_reader(search.EVENTS, bare="type"),
    panel=screens.build_newest_panel("threads/events", _build_list),
    lines=_build_list,
    export=ScreenExport(
        fields=records.EVENT,
        content_fields=records.EVENT_CONTENT,
        record=records.build_event_record,
        batch=_list_batch,
    ),
)


def draw_bubble(
    thread: Thread,
    line: ThreadEventLine,
    moment: TimelineMoment,
    room: chat.PageRoom | None = None,
) -> chat.Bubble | None:
    """Draw the message that an event appended; None for other events. No query."""
    if line.type != "slot.appended":
        return None
    slot = timeline.build_slot_line(thread, line, turn=moment.state.turn_count)
    return chat.build_bubble(slot, room or chat.PageRoom())


#: Types of the events after which an operator lands on the thread's page.
_LANDINGS = (CheckpointRestored.event_type, ThreadForked.event_type)
#: Type of the event that erases records at a person's request.
_ORDER = "records.erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreUndo:
    """Checkpoint taken before a restore, with the query of the form that undoes it."""

    number: int
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingNotice:
    """Restore or fork that led to the thread's page, with the undo of a restore."""

    event: ThreadEventLine
    #: What a restore returned to, by its name if it has one.
    checkpoint: str
    undo: RestoreUndo | None
    #: Head of the preview before a restore, and what differed from the preview.
    seen: int
    drift: Drift | None
    #: Name of the thread that a fork descends from; empty for a restore.
    parent: str
    #: Seq of the event with which a restore reopened the thread; 0 for none.
    reopened: int = 0


def find_landing(request: HttpRequest, visit: Visit) -> LandingNotice | None:
    """Find the restore or fork that the URL names as just saved.

    No query without `saved` in the URL; at most twelve with it. Raises InvalidError.
    """
    seq = asof.read_number(request, "saved")
    if not visit.editable or seq is None or not 1 <= seq <= visit.row.head_seq:
        return None
    line = events.get_event(visit.row, seq)
    if line.type not in _LANDINGS:
        return None
    seen, context = _parse_seen(request), panels.build_named_context(visit.row, line)
    return LandingNotice(
        event=line,
        checkpoint=context["kept_name"],
        undo=_find_undo(visit.row, line),
        seen=seen,
        drift=restorations.get_drift(visit.row, line, seen=seen),
        parent=context["parent"],
        reopened=_find_reopening(request, visit.row, line),
    )


def _find_reopening(request: HttpRequest, row: Thread, line: ThreadEventLine) -> int:
    """Find the event that reopened the thread for a restore, named by the URL."""
    seq = asof.read_number(request, "reopened") or 0
    if not 1 <= seq < line.seq:
        return 0
    return seq if events.get_event(row, seq).type == ThreadReopened.event_type else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartedPage:
    """Page that left the working set, with its first words."""

    page_id: str
    tokens: int
    #: Keep score; None where pages were not compared.
    score: float | None
    words: FirstWords


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str, seq: int) -> HttpResponse:
    """Show one event: its record in the journal, and the difference it made."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    if not 1 <= seq <= row.head_seq:
        raise NotFoundError
    line = events.get_event(row, seq)
    moment = timeline.get_moment(row, seq)
    whole = request.GET.get("content") == "all"
    room = chat.PageRoom.build_unlimited() if whole else chat.PageRoom()
    context = {
        "event": panels.build_event_row(row, line),
        **panels.build_named_context(row, line),
        "moment": moment,
        "message": draw_bubble(row, line, moment, room),
        "raw": room.build_json_block(
            chat.render_readable_json(records.build_event_record(thread, line))
        ),
        "proof": erasure_views.find_record_proof(row.id, line.seq)
        if line.erased
        else None,
        "order": line.body.get("erasure") if line.type == _ORDER else None,
        "undo": _find_undo(row, line) if visitor.editor else None,
        "departed": _list_departed(row, line, moment),
        "retracted": _list_retracted(row, line),
        "drift": restorations.get_drift(row, line, seen=_parse_seen(request)),
    }
    template = "inspector/threads/events/show.html"
    scene = ThreadScene(thread=row, at_seq=seq)
    return visits.render_thread_page(
        request, template, visitor, row, context, scene=scene
    )


def _list_departed(
    row: Thread, line: ThreadEventLine, moment: TimelineMoment
) -> list[DepartedPage]:
    """List the first pages that left together by this event, lowest score first.

    Two queries for their texts, none for another event.
    """
    if line.type != PagesEvicted.event_type:
        return []
    ids = line.body["page_ids"][:DEPARTED]
    scores = line.body.get("scores") or [None] * len(ids)
    entries = page_texts.list_held_entries(moment.state.paging, ids)
    places = {page_id: entry.full.location for page_id, entry in entries.items()}
    found = page_texts.get_near_texts(row, places)
    return [
        DepartedPage(
            page_id=page_id,
            tokens=tokens,
            score=score,
            words=first_words.build_page_words(*found.get(page_id, (None, 0))),
        )
        for page_id, tokens, score in zip(
            ids, line.body["tokens"], scores, strict=False
        )
    ]


def _list_retracted(
    row: Thread, line: ThreadEventLine
) -> list[tuple[ThreadEventLine, str]]:
    """List the first assertions that this event retracted, each with its claim.

    The claim of an erased assertion is empty. One query, none for another event.
    """
    if line.type != FactRetracted.event_type:
        return []
    found = events.list_at(row, line.body["seqs"][:RETRACTED])
    return [(each, summaries.build_preview(each)) for each in found]


def _find_undo(row: Thread, line: ThreadEventLine) -> RestoreUndo | None:
    """Find the checkpoint that undoes a restore, while that checkpoint exists."""
    if line.type != CheckpointRestored.event_type:
        return None
    state = states.load_state(row)
    before = line.body["before"]
    if state.memory.find_live(before) is None:
        return None
    parts = [("part", part) for part in line.body["parts"]]
    return RestoreUndo(number=state.to_seq(before), query=urlencode(parts))


def _parse_seen(request: HttpRequest) -> int:
    """Parse the head that the operator's preview was of; 0 without a preview."""
    text = request.GET.get("seen", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
