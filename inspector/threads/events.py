from __future__ import annotations

from dataclasses import dataclass
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
from inspector.web import asof, exports, records, search, shell
from inspector.web.search import Asked
from memoryhub.errors import NotFoundError
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.memory import restorations
from memoryhub.queries.replay import states
from memoryhub.queries.threads import event_search, events, timeline
from memoryhub.queries.threads.event_search import Stretch
from memoryhub.queries.threads.events import EventLine

#: Events of a batch of an export.
CHUNK = 200
#: What takes records at somebody's wish.
_ORDER = "records.erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The checkpoint that holds what was before a restore, and the form's query."""

    number: int
    query: str


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, seq: int) -> HttpResponse:
    """One event: what stands in the journal, and the difference it made."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    if not 1 <= seq <= row.head_seq:
        raise NotFoundError
    line = events.get_event(row, seq)
    moment = timeline.get_moment(row, seq)
    whole = request.GET.get("content") == "all"
    room = chat.Room.boundless() if whole else chat.Room()
    context = {
        **panels.shared(Scene(thread=row, at_seq=seq)),
        "event": panels.told(line),
        "moment": moment,
        "message": panels.bubble_of(row, line, moment, room),
        "raw": room.raw(records.event(thread, line)),
        "proof": erasure_views.get_mark(row.id, line.seq) if line.erased else None,
        "order": line.body.get("erasure") if line.type == _ORDER else None,
        "undo": _undo(row, line) if place.editor else None,
        "drift": restorations.get_drift(row, line, seen=_seen(request)),
    }
    return shell.page(
        request,
        "inspector/threads/events/show.html",
        context,
        place=place,
        section="threads",
    )


def _undo(row: Thread, line: EventLine) -> Undo | None:
    """What takes a restore back, while the checkpoint that it took is there."""
    if line.type != CheckpointRestored.event_type:
        return None
    state = states.state_of(row)
    before = line.body["before"]
    if state.memory.live(before) is None:
        return None
    parts = [("part", part) for part in line.body["parts"]]
    return Undo(number=state.seq_of(before), query=urlencode(parts))


def _seen(request: HttpRequest) -> int:
    """The head that a preview was judged by, as its form sent it; 0 if none was."""
    told = request.GET.get("seen", "")
    return int(told) if told.isascii() and told.isdigit() and len(told) <= 18 else 0


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The events that a search finds, newest first; rare ones batch by batch."""
    visit, asked = visits.find(request, project, thread), _asked(request)
    row, at_seq = visit.row, visit.moment.at_seq
    found = None if asked.error else _look_back(request, row, asked, at_seq)
    context: dict[str, Any] = {
        "asked": asked,
        "found": found,
        "shown": [panels.told(line) for line in found.lines] if found else [],
        "search": asked.query(),
        "kept": asked.query(at_seq=at_seq),
        "more": asked.query(at_seq=at_seq, after=found.next)
        if found and found.next
        else "",
    }
    status = 422 if asked.error else 200
    return visits.page(
        request, "inspector/threads/events/index.html", visit, context, status=status
    )


@require_safe
@signed_in
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """What a search finds as data, oldest first; payloads only if asked for."""
    visit, asked = visits.find(request, project, thread), _asked(request)
    row, at_seq = visit.row, visit.moment.at_seq
    if asked.error:
        return exports.refused(asked.error, status=422)
    content = request.GET.get("content") == "1"
    found = event_search.iter_events(
        row, terms=asked.terms, now=clock.now(), at_seq=at_seq, content=content
    )
    return exports.answer(
        request,
        kind,
        f"{row.name}-events",
        heading=records.EVENT + (records.EVENT_CONTENT if content else ()),
        record=lambda line: records.event(row.name, line, content=content),
        part=lambda: _batch(request, row, asked, at_seq=at_seq, content=content),
        parts=lambda: found,
    )


def _asked(request: HttpRequest) -> Asked:
    return search.asked(request.GET.get("q", ""), search.EVENTS, bare="type")


def _look_back(
    request: HttpRequest, row: Thread, asked: Asked, at_seq: int | None
) -> Stretch:
    """The newest that are found as of a seq, or what follows the cursor of the URL."""
    return event_search.search_events(
        row,
        terms=asked.terms,
        now=clock.now(),
        at_seq=at_seq,
        after=request.GET.get("after") or None,
        limit=asof.limit(request),
        order="desc",
    )


def _batch(
    request: HttpRequest,
    row: Thread,
    asked: Asked,
    *,
    at_seq: int | None,
    content: bool,
) -> Batch[EventLine]:
    found = event_search.search_events(
        row,
        terms=asked.terms,
        now=clock.now(),
        at_seq=at_seq,
        after=request.GET.get("after") or None,
        limit=CHUNK,
        content=content,
    )
    return Batch(items=found.lines, next=found.next)
