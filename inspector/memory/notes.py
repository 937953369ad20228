from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.drawing import memories
from inspector.drawing.memories import Jotted
from inspector.live import panels, visits
from inspector.live.visits import Visit
from inspector.memory import memory_records
from inspector.web import asof, exports, search
from inspector.web.search import Asked
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.models.server.clock import clock
from memoryhub.queries.lists.cursors import Batch, walk
from memoryhub.queries.lists.terms import Term, Word
from memoryhub.queries.memory import notes
from memoryhub.queries.replay import states
from memoryhub.queries.threads import event_search
from memoryhub.queries.threads.event_search import Stretch
from memoryhub.queries.threads.events import Order

#: Searches that are a click away.
EXAMPLES = ("at:<1h", "actor:agent:*", "-actor:agent:*")
#: Notes of a batch of an export.
CHUNK = 200
_ADDED = Term(key="type", values=(Word(text="note.added"),))


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The scratchpad as it is written, older notes, or those that a search finds."""
    visit, asked = visits.find(request, project, thread), _asked(request)
    after, at_seq = request.GET.get("after", ""), visit.moment.at_seq
    live = not (asked.text or after)
    context: dict[str, Any] = {
        "asked": asked,
        "examples": EXAMPLES,
        "search": asked.query(),
        "panel": live,
        "since": _since(visit),
        "exported": exports.links(
            f"{panels.shared(visit.scene)['base']}/notes",
            asked.query(at_seq=at_seq),
        ),
        "links": not asked.error,
    }
    if live:
        context |= panels.PANELS["notes"].context(visit.scene)
    elif not asked.error:
        context |= _found(request, visit, asked) if asked.text else _older(visit, after)
    status = 422 if asked.error else 200
    return visits.page(
        request, "inspector/memory/notes/index.html", visit, context, status=status
    )


@require_safe
@signed_in
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """The scratchpad, or what a search finds, oldest first; texts only if asked for."""
    visit, asked = visits.find(request, project, thread), _asked(request)
    if asked.error:
        return exports.refused(asked.error, status=422)
    content = request.GET.get("content") == "1"
    part = partial(_part, visit, asked, content=content)
    return exports.answer(
        request,
        kind,
        f"{thread}-notes",
        heading=memory_records.NOTE + (memory_records.NOTE_CONTENT if content else ()),
        record=lambda line: memory_records.note(thread, line, content=content),
        part=lambda: part(request.GET.get("after") or None),
        parts=lambda: walk(part),
    )


def _asked(request: HttpRequest) -> Asked:
    return search.asked(request.GET.get("q", ""), search.NOTES, bare="actor")


def _since(visit: Visit) -> int:
    """Notes that were added after the moment at hand and are there now."""
    if visit.moment.live:
        return 0
    state = states.state_of(visit.row)
    clock_ = visit.moment.seq + state.inherited_clock
    return sum(note.clock > clock_ for note in NOTES.value(state).lines)


def _found(request: HttpRequest, visit: Visit, asked: Asked) -> dict[str, Any]:
    """What a search finds, newest first; trimmed notes too."""
    found = _searched(
        visit,
        asked,
        request.GET.get("after") or None,
        limit=asof.limit(request),
        order="desc",
    )
    more = asked.query(at_seq=visit.moment.at_seq, after=found.next)
    return {
        "jotted": memories.of_events(found.lines),
        "found": found,
        "following": more if found.next else "",
    }


def _older(visit: Visit, after: str) -> dict[str, Any]:
    at_seq = visit.moment.at_seq
    found = notes.list_notes(
        visit.row, order="desc", seq=at_seq, after=after, limit=memories.LISTED
    )
    return {"jotted": memories.jotted(found.items), "following": found.next}


def _searched(
    visit: Visit,
    asked: Asked,
    after: str | None,
    *,
    limit: int,
    order: Order,
    content: bool = True,
) -> Stretch:
    return event_search.search_events(
        visit.row,
        terms=(*asked.terms, _ADDED),
        now=clock.now(),
        at_seq=visit.moment.at_seq,
        after=after,
        limit=limit,
        order=order,
        content=content,
    )


def _part(
    visit: Visit, asked: Asked, after: str | None, *, content: bool
) -> Batch[Jotted]:
    if asked.text:
        found = _searched(
            visit, asked, after, limit=CHUNK, order="asc", content=content
        )
        return Batch(items=tuple(memories.of_events(found.lines)), next=found.next)
    batch = notes.list_notes(
        visit.row, seq=visit.moment.at_seq, after=after, limit=CHUNK, content=content
    )
    return Batch(items=tuple(memories.jotted(batch.items)), next=batch.next)
