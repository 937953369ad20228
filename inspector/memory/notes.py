"""Screen of notes: the scratchpad as it is written, older notes, and a search."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from inspector.drawing.scenes import Context, Glance, Panel, ThreadScene
from inspector.lists import screens
from inspector.lists.screens import LineCount, ListRequest, Screen, ScreenExport
from inspector.lists.visits import Visit
from inspector.threads import events
from inspector.web import search
from inspector.web.records import Record
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.lists.terms import SearchTerm, WordValue
from memoryhub.queries.memory import checkpoints, notes
from memoryhub.queries.memory.notes import NoteLine
from memoryhub.queries.memory.working_memory import MemoryView
from memoryhub.queries.replay import states
from memoryhub.queries.threads.events import ThreadEventLine

#: Notes that the panel shows.
LISTED = 50
#: Least gap between two notes that the screen shows.
GAP = timedelta(minutes=1)
_SEARCHED = ("seq", "turn", "actor", "at", "erased")
_ADDED = (SearchTerm(key="type", values=(WordValue(text="note.added"),)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNote:
    """Note as the screen shows it."""

    seq: int
    at: datetime
    by: str
    bytes: int
    text: str | None
    #: Number of notes that the scratchpad dropped to make room.
    trimmed: int = 0
    #: Time since the note before, if that is longer than GAP.
    gap: timedelta | None = None


def from_lines(lines: Iterable[NoteLine]) -> list[ShownNote]:
    """Convert lines, newest first, to notes with the gaps between them."""
    found = [
        ShownNote(seq=n.seq, at=n.at, by=n.by, bytes=n.bytes, text=n.text)
        for n in lines
    ]
    return _add_gaps(found)


def from_events(lines: Iterable[ThreadEventLine]) -> list[ShownNote]:
    """Convert `note.added` events, newest first, to notes with gaps between them."""
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
    return _add_gaps(found)


def _add_gaps(found: Sequence[ShownNote]) -> list[ShownNote]:
    pairs = itertools.pairwise(found)
    gaps = {later.seq: later.at - note.at for later, note in pairs}
    return [
        replace(note, gap=gap) if (gap := gaps.get(note.seq)) and gap > GAP else note
        for note in found
    ]


def _build_panel(scene: ThreadScene) -> Context:
    """Build the panel of the newest notes. At most four queries."""
    thread, seq = scene.thread, scene.at_seq
    found = notes.list_notes(thread, seq=seq, order="desc", limit=LISTED)
    return {
        "jotted": from_lines(found.items),
        "following": found.next,
        "restored": checkpoints.find_last_restore(thread, "notes", seq=seq),
    }


def _build_glance(memory: MemoryView) -> Context:
    return {"jotted": from_lines(reversed(memory.newest["notes"]))}


def _build_surroundings(ask: ListRequest[Visit]) -> Context:
    """Count the notes of now that were added after the moment shown."""
    moment = ask.where.moment
    if moment.live:
        return {"since": 0}
    state = states.load_state(ask.where.row)
    last = moment.seq + state.inherited_clock
    return {"since": sum(note.clock > last for note in NOTES.get_current(state).lines)}


def _search_notes(ask: ListRequest[Visit]) -> Context:
    """List the notes that the search matches, newest first; trimmed notes too."""
    found = events.find_events(
        ask, ask.after, limit=ask.limit, order="desc", terms=_ADDED
    )
    return {
        "jotted": from_events(found.lines),
        "found": found,
        "count": LineCount(shown=len(found.lines), more=found.next is not None),
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
        "count": LineCount(shown=len(found.items), more=found.next is not None),
        "following": found.next,
    }


def _list_batch(
    ask: ListRequest[Visit], after: str | None, limit: int
) -> ListBatch[ShownNote]:
    visit, content = ask.where, ask.content
    if ask.parsed.text:
        found = events.find_events(
            ask, after, limit=limit, order="asc", content=content, terms=_ADDED
        )
        return ListBatch(items=tuple(from_events(found.lines)), next=found.next)
    batch = notes.list_notes(
        visit.row, seq=visit.moment.at_seq, after=after, limit=limit, content=content
    )
    return ListBatch(items=tuple(from_lines(batch.items)), next=batch.next)


def _build_record(thread: str, line: ShownNote) -> Record:
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
    label="Notes (scratchpad)",
    tab="memory",
    scope=screens.THREAD,
    panel=Panel(template="inspector/memory/notes/_panel.html", context=_build_panel),
    difference="inspector/memory/notes/_difference.html",
    glance=Glance(
        template="inspector/memory/notes/_glance.html", context=_build_glance
    ),
    read=screens.build_search_reader(
        {k: search.EVENTS[k] for k in _SEARCHED}, bare="actor"
    ),
    examples=("at:<1h", "actor:agent:*", "-actor:agent:*"),
    around=_build_surroundings,
    lines=lambda ask: _search_notes(ask) if ask.parsed.text else _list_older(ask),
    export=ScreenExport(
        fields=("thread", "seq", "at", "by", "bytes"),
        content_fields=("text",),
        record=_build_record,
        batch=_list_batch,
    ),
)
