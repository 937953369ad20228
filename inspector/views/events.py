from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector import access, asof, chat, exports, panels, records, search, shell
from inspector.access import signed_in
from inspector.panels import Scene
from inspector.search import SearchError
from memoryhub.errors import NotFoundError
from memoryhub.models.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries import event_search, events, timeline
from memoryhub.queries.event_search import Stretch
from memoryhub.queries.events import EventLine
from memoryhub.queries.terms import Term

#: Events of a batch of an export.
CHUNK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the URL asks of a thread's events."""

    text: str
    terms: tuple[Term, ...] = ()
    error: SearchError | None = None

    def query(self, **more: str | int | None) -> str:
        """This search with more of a query, as it stands behind the `?`."""
        parts = {"q": self.text, **more}
        return urlencode({name: value for name, value in parts.items() if value})


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
    }
    return shell.page(
        request, "inspector/events/show.html", context, place=place, section="threads"
    )


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The events that a search finds, newest first; rare ones batch by batch."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    moment, asked = asof.read(request, row), _asked(request)
    found = None if asked.error else _look_back(request, row, asked, moment.at_seq)
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row, at_seq=moment.at_seq)),
        "moved": moment,
        "newer": moment.head - moment.seq,
        "asked": asked,
        "found": found,
        "shown": [panels.told(line) for line in found.lines] if found else [],
        "search": asked.query(),
        "kept": asked.query(at_seq=moment.at_seq),
        "more": asked.query(at_seq=moment.at_seq, after=found.next)
        if found and found.next
        else "",
    }
    return shell.page(
        request,
        "inspector/events/index.html",
        context,
        place=place,
        section="threads",
        live=True,
        status=422 if asked.error else 200,
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
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    moment, asked = asof.read(request, row), _asked(request)
    if asked.error:
        return exports.refused(asked.error, status=422)
    content = request.GET.get("content") == "1"
    if kind == "json":
        return _batch(request, row, asked, at_seq=moment.at_seq, content=content)
    found = event_search.iter_events(
        row, terms=asked.terms, now=clock.now(), at_seq=moment.at_seq, content=content
    )
    chunks = (_records(row, lines, content=content) for lines in found)
    heading = records.EVENT + (records.EVENT_CONTENT if content else ())
    return exports.stream(request, f"{row.name}-events", kind, chunks, heading=heading)


def _asked(request: HttpRequest) -> Asked:
    text = request.GET.get("q", "").strip()
    try:
        terms = search.parse(text, search.EVENTS, bare="type")
    except SearchError as error:
        return Asked(text=text, error=error)
    return Asked(text=text, terms=terms)


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
) -> HttpResponse:
    found = event_search.search_events(
        row,
        terms=asked.terms,
        now=clock.now(),
        at_seq=at_seq,
        after=request.GET.get("after") or None,
        limit=CHUNK,
        content=content,
    )
    return exports.batch(_records(row, found.lines, content=content), found.next)


def _records(
    row: Thread, lines: tuple[EventLine, ...], *, content: bool
) -> list[records.Record]:
    return [records.event(row.name, line, content=content) for line in lines]
