"""Notes: the scratchpad as it is written, older notes, or those a search finds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from inspector.drawing.scenes import Context, Glance, Panel, Scene
from inspector.lists import screens
from inspector.lists.screens import Count, Export, ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.threads import events
from inspector.web import search
from inspector.web.records import Record
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.lists.terms import SearchTerm, Word
from memoryhub.queries.memory import notes
from memoryhub.queries.memory.notes import NoteLine
from memoryhub.queries.memory.working_memory import MemoryView
from memoryhub.queries.replay import states
from memoryhub.queries.threads.events import EventLine

#: Notes of a panel.
LISTED = 50
#: Notes further apart than this have the gap told between them.
GAP = timedelta(minutes=1)
_SEARCHED = ("seq", "turn", "actor", "at", "erased")
_ADDED = (SearchTerm(key="type", values=(Word(text="note.added"),)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNote:
    """A note as it is shown."""

    seq: int
    at: datetime
    by: str
    bytes: int
    text: str | None
    #: Notes that left the scratchpad for it.
    trimmed: int = 0
    #: Since the note before it, if that is long.
    gap: timedelta | None = None


def from_lines(lines: Iterable[NoteLine]) -> list[ShownNote]:
    """Notes in the order they are shown, newest first, with the gaps between them."""
    found = [
        ShownNote(seq=n.seq, at=n.at, by=n.by, bytes=n.bytes, text=n.text)
        for n in lines
    ]
    return _gapped(found)


def from_events(lines: Iterable[EventLine]) -> list[ShownNote]:
    """The same of events that added notes."""
    found = [
        ShownNote(
            seq=line.seq,
            at=line.at,
            by=line.actor,
            bytes=line.body["bytes"],
            text=None if line.payload is None else line.payload["text"],
            trimmed=line.body.get("trimmed", 0),
        )
        for line in lines
    ]
    return _gapped(found)


def _gapped(found: Sequence[ShownNote]) -> list[ShownNote]:
    pairs = itertools.pairwise(found)
    gaps = {later.seq: later.at - note.at for later, note in pairs}
    return [
        replace(note, gap=gap) if (gap := gaps.get(note.seq)) and gap > GAP else note
        for note in found
    ]


def _panel(scene: Scene) -> Context:
    """The newest notes. Two queries."""
    found = notes.list_notes(scene.thread, seq=scene.at_seq, order="desc", limit=LISTED)
    return {"jotted": from_lines(found.items), "following": found.next}


def _glance(memory: MemoryView) -> Context:
    return {"jotted": from_lines(reversed(memory.newest["notes"]))}


def _around(ask: ListRequest[Visit]) -> Context:
    """How many notes were added after the moment at hand and are there now."""
    moment = ask.where.moment
    if moment.live:
        return {"since": 0}
    state = states.state_of(ask.where.row)
    last = moment.seq + state.inherited_clock
    return {"since": sum(note.clock > last for note in NOTES.value(state).lines)}


def _find(ask: ListRequest[Visit]) -> Context:
    """What a search finds, newest first; trimmed notes too."""
    found = events.find(ask, ask.after, limit=ask.limit, order="desc", terms=_ADDED)
    return {
        "jotted": from_events(found.lines),
        "found": found,
        "count": Count(shown=len(found.lines), more=found.next is not None),
        "following": ask.query(after=found.next) if found.next else "",
    }


def _list_older(ask: ListRequest[Visit]) -> Context:
    found = notes.list_notes(
        ask.where.row,
        order="desc",
        seq=ask.where.moment.at_seq,
        after=ask.after,
        limit=LISTED,
    )
    return {
        "jotted": from_lines(found.items),
        "count": Count(shown=len(found.items), more=found.next is not None),
        "following": found.next,
    }


def _batch(ask: ListRequest[Visit], after: str | None, limit: int) -> Batch[ShownNote]:
    visit, content = ask.where, ask.content
    if ask.parsed.text:
        found = events.find(
            ask, after, limit=limit, order="asc", content=content, terms=_ADDED
        )
        return Batch(items=tuple(from_events(found.lines)), next=found.next)
    batch = notes.list_notes(
        visit.row, seq=visit.moment.at_seq, after=after, limit=limit, content=content
    )
    return Batch(items=tuple(from_lines(batch.items)), next=batch.next)


def _record(thread: str, line: ShownNote) -> Record:
    return {
        "thread": thread,
        "seq": line.seq,
        "at": line.at.isoformat(),
        "by": line.by,
        "bytes": line.bytes,
        "text": line.text,
    }


SCREEN = Screen(
    folder="memory/notes",
    tab="memory",
    scope=screens.THREAD,
    panel=Panel(template="inspector/memory/notes/_panel.html", context=_panel),
    difference="inspector/memory/notes/_difference.html",
    glance=Glance(template="inspector/memory/notes/_glance.html", context=_glance),
    read=screens.searched({k: search.EVENTS[k] for k in _SEARCHED}, bare="actor"),
    examples=("at:<1h", "actor:agent:*", "-actor:agent:*"),
    around=_around,
    lines=lambda ask: _find(ask) if ask.parsed.text else _list_older(ask),
    export=Export(
        fields=("thread", "seq", "at", "by", "bytes"),
        content_fields=("text",),
        record=_record,
        batch=_batch,
    ),
)
