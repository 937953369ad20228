"""Notes of a thread's scratchpad, now or as of an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal
from uuid import UUID

from memoryhub.journal import texts
from memoryhub.kernel.memory.notes import NOTES, Note, Scratchpad
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import (
    PART_BYTES,
    ListBatch,
    ListScope,
    count_fitting,
)
from memoryhub.queries.memory.slice_views import SliceDifferences, SliceView
from memoryhub.queries.replay.state_files import CHUNK, StateFile, build_record
from memoryhub.queries.replay.states import load_state

Order = Literal["asc", "desc"]
#: Maximum number of notes that a comparison shows with their texts.
SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLine:
    #: The note's number, the seq of its event; ≤ 0 if inherited.
    seq: int
    at: datetime
    by: str
    bytes: int
    #: None when the text was not requested or was erased.
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRecord:
    """A line of a thread's scratchpad."""

    thread: UUID
    seq: int
    at: datetime
    by: str
    text: str | None


def list_notes(
    thread: Thread,
    *,
    order: Order = "asc",
    content: bool = True,
    seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[NoteLine]:
    """List notes by number, in batches. `thread` comes with its subject. Two queries.

    Reads the current scratchpad: a note trimmed between two batches is left out. Raises
    BadCursorError.
    """
    listing = ListScope(
        name="notes",
        project=thread.project_id,
        filters=[thread.id, order, content, seq],
    )
    state = load_state(thread, seq)
    notes = [*NOTES.get_current(state).lines]
    if order == "desc":
        notes.reverse()
    if after is not None:
        (last,) = listing.open(after)
        notes = [n for n in notes if (n.clock > last) is (order == "asc")]
        notes = [n for n in notes if n.clock != last]
    size = limit
    if content:
        sizes = (note.bytes for note in notes[:limit])
        size = count_fitting(sizes, max_bytes=PART_BYTES)
    batch = notes[:size]
    more = listing.seal([batch[-1].clock]) if len(notes) > size else None
    return ListBatch(
        items=build_lines(thread, state, batch, content=content), next=more
    )


def build_lines(
    thread: Thread, state: ThreadState, notes: Sequence[Note], *, content: bool = True
) -> tuple[NoteLine, ...]:
    """Build lines of these notes with times and, if requested, texts. One query."""
    clocks = [note.clock for note in notes]
    opened = texts.open_events(thread, state, clocks, content=content)
    return tuple(
        NoteLine(
            seq=state.to_seq(note.clock),
            at=opened[note.clock].at,
            by=opened[note.clock].actor,
            bytes=note.bytes,
            text=(opened[note.clock].content or {}).get("text"),
        )
        for note in notes
    )


def _list_newest(
    thread: Thread, state: ThreadState, scratchpad: Scratchpad, most: int
) -> tuple[NoteLine, ...]:
    return build_lines(thread, state, [*scratchpad.lines][-most:] if most else [])


def _list_differences(
    thread: Thread, state: ThreadState, before: Scratchpad, after: Scratchpad
) -> SliceDifferences:
    here, there = ({note.clock for note in each.lines} for each in (before, after))
    return {
        "notes_added": tuple(map(state.to_seq, sorted(there - here))),
        "notes_removed": tuple(map(state.to_seq, sorted(here - there))),
    }


def _open_texts(
    thread: Thread,
    state: ThreadState,
    before: Scratchpad,
    after: Scratchpad,
    found: SliceDifferences,
) -> SliceDifferences:
    """Open the newest of the added and of the removed notes. Two queries."""
    opened = {}
    for name, scratchpad in (("notes_added", after), ("notes_removed", before)):
        wanted = {*found[name][-SHOWN:]}
        held = [n for n in scratchpad.lines if state.to_seq(n.clock) in wanted]
        opened[name] = build_lines(thread, state, held)
    return opened


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[NoteRecord]:
    left = iter(NOTES.get_current(state).lines)
    while batch := list(islice(left, CHUNK)):
        for line in build_lines(thread, state, batch):
            yield build_record(NoteRecord, line, thread=thread.id)


STATES = StateFile(
    path="state/notes.jsonl",
    record=NoteRecord,
    lines=_iter_records,
    needs=frozenset({"note.added"}),
    counted="note.added",
)
VIEW = SliceView(
    slice=NOTES,
    fields={"notes_added": list[int], "notes_removed": list[int]},
    example={"notes_added": [51], "notes_removed": []},
    names=_list_differences,
    texts=_open_texts,
    newest=_list_newest,
)
