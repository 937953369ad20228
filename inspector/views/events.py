from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector import access, asof, chat, exports, panels, records, shell
from inspector.access import signed_in
from inspector.panels import Scene
from memoryhub.errors import NotFoundError
from memoryhub.models.threads import Thread
from memoryhub.queries import events, timeline

CHUNK = 200


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
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """The journal as data, oldest first; payloads only if asked for."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    content = request.GET.get("content") == "1"
    if kind == "json":
        after = asof.number(request, "after") or 0
        lines = events.list_events(row, after=after, limit=CHUNK, content=content)
        more = str(lines[-1].seq) if lines and lines[-1].seq < row.head_seq else None
        items = [records.event(row.name, line, content=content) for line in lines]
        return exports.batch(items, more)
    moment = asof.read(request, row)
    chunks = _chunks(row, up_to=moment.seq, content=content)
    send = exports.table if kind == "csv" else exports.ndjson
    return send(request, f"{row.name}-events", chunks)


def _chunks(
    row: Thread, *, up_to: int, content: bool
) -> Iterator[list[records.Record]]:
    after = 0
    while lines := events.list_events(
        row, after=after, up_to=up_to, limit=CHUNK, content=content
    ):
        yield [records.event(row.name, line, content=content) for line in lines]
        after = lines[-1].seq
