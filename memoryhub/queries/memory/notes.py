"""Notes on a thread's scratchpad, now or as of an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal
from uuid import UUID

from memoryhub.kernel.memory.notes import NOTES, Note, Scratchpad
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, Batch, Listing, fitting
from memoryhub.queries.memory.slice_views import Found, SliceView
from memoryhub.queries.replay import payloads
from memoryhub.queries.replay.state_files import CHUNK, StateFile, record_of
from memoryhub.queries.replay.states import state_of

Order = Literal["asc", "desc"]
#: Of those that differ between two moments, how many are shown with their texts.
SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLine:
    #: Its number: the seq of its event; ≤ 0 if inherited.
    seq: int
    at: datetime
    by: str
    bytes: int
    #: None when it was not asked for, or was erased.
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
) -> Batch[NoteLine]:
    """Notes by number, in batches. `thread` comes with its subject. Two queries.

    Goes by the scratchpad of now: one that was trimmed meanwhile is left out. Raises
    BadCursorError.
    """
    listing = Listing(
        name="notes",
        project=thread.project_id,
        filters=[thread.id, order, content, seq],
    )
    state = state_of(thread, seq)
    notes = [*NOTES.value(state).lines]
    if order == "desc":
        notes.reverse()
    if after is not None:
        (last,) = listing.open(after)
        notes = [n for n in notes if (n.clock > last) is (order == "asc")]
        notes = [n for n in notes if n.clock != last]
    size = limit
    if content:
        sizes = (note.bytes for note in notes[:limit])
        size = fitting(sizes, max_bytes=PART_BYTES)
    batch = notes[:size]
    more = listing.seal([batch[-1].clock]) if len(notes) > size else None
    return Batch(items=lines(thread, state, batch, content=content), next=more)


def lines(
    thread: Thread, state: ThreadState, notes: Sequence[Note], *, content: bool = True
) -> tuple[NoteLine, ...]:
    """These notes with their times and, if asked, their texts. One query."""
    clocks = [note.clock for note in notes]
    opened = payloads.opened(thread, state, clocks, content=content)
    return tuple(
        NoteLine(
            seq=state.seq_of(note.clock),
            at=opened[note.clock].at,
            by=opened[note.clock].actor,
            bytes=note.bytes,
            text=(opened[note.clock].content or {}).get("text"),
        )
        for note in notes
    )


def _newest(
    thread: Thread, state: ThreadState, scratchpad: Scratchpad, most: int
) -> tuple[NoteLine, ...]:
    return lines(thread, state, [*scratchpad.lines][-most:] if most else [])


def _differing(
    thread: Thread, state: ThreadState, before: Scratchpad, after: Scratchpad
) -> Found:
    here, there = ({note.clock for note in each.lines} for each in (before, after))
    return {
        "notes_added": tuple(map(state.seq_of, sorted(there - here))),
        "notes_removed": tuple(map(state.seq_of, sorted(here - there))),
    }


def _texts(
    thread: Thread,
    state: ThreadState,
    before: Scratchpad,
    after: Scratchpad,
    found: Found,
) -> Found:
    """The newest of those that came and of those that went. Two queries."""
    texts = {}
    for name, scratchpad in (("notes_added", after), ("notes_removed", before)):
        wanted = {*found[name][-SHOWN:]}
        held = [n for n in scratchpad.lines if state.seq_of(n.clock) in wanted]
        texts[name] = lines(thread, state, held)
    return texts


def _records(thread: Thread, state: ThreadState, now: datetime) -> Iterator[NoteRecord]:
    left = iter(NOTES.value(state).lines)
    while batch := list(islice(left, CHUNK)):
        for line in lines(thread, state, batch):
            yield record_of(NoteRecord, line, thread=thread.id)


STATES = StateFile(
    path="state/notes.jsonl",
    record=NoteRecord,
    lines=_records,
    needs=frozenset({"note.added"}),
    counted="note.added",
)
VIEW = SliceView(
    slice=NOTES,
    fields={"notes_added": list[int], "notes_removed": list[int]},
    example={"notes_added": [51], "notes_removed": []},
    names=_differing,
    texts=_texts,
    newest=_newest,
)
