"""Checkpoints of a thread: the list, and how two moments differ. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson

from memoryhub.journal import Receipt
from memoryhub.journal.rows.checkpoint_rows import CHECKPOINTS
from memoryhub.journal.rows.rows import CheckpointRow
from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.memory.checkpoint_events import COUNTED
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Checkpoint
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.replay import payloads
from memoryhub.queries.replay.payloads import Opened
from memoryhub.queries.replay.state_files import CHUNK, StateFile, record_of
from memoryhub.queries.replay.states import state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLine:
    """A checkpoint as lists show it; nothing of what it holds was read."""

    #: The seq of its event; ≤ 0 if inherited.
    seq: int
    name: str | None
    description: str | None
    at: datetime
    by: str
    auto: bool
    parent: int | None
    #: How much it holds; keys not yet swept included.
    counts: Mapping[str, Any]
    #: Names touched since the parent; None: any.
    touched: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A point that a thread's working memory can return to."""

    thread: UUID
    seq: int
    name: str | None
    description: str | None
    at: datetime
    by: str
    auto: bool
    parent: int | None
    __annotations__ |= COUNTED


def list_checkpoints(
    thread: Thread,
    *,
    name: str | None = None,
    auto: bool | None = None,
    seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> Batch[CheckpointLine]:
    """Checkpoints by seq, in batches. `thread` comes with its subject.

    Two queries whatever they hold: descriptions are read, values never. Raises
    BadCursorError.
    """
    listing = Listing(
        name="checkpoints",
        project=thread.project_id,
        filters=[thread.id, name, auto, seq],
    )
    last: int | None = None
    if after is not None:
        (last,) = listing.open(after)
    filters = {"name": name, "auto": auto}
    wanted = {field: each for field, each in filters.items() if each is not None}
    found = _found(thread, wanted, seq=seq, after=last, limit=limit + 1)
    batch = found[:limit]
    more = listing.seal([batch[-1].seq]) if len(found) > limit else None
    return Batch(items=_lines(thread, batch), next=more)


def _found(
    thread: Thread,
    wanted: Mapping[str, Any],
    *,
    seq: int | None,
    after: int | None,
    limit: int,
) -> list[CheckpointRow]:
    """Those of now as they are stored, those of then from the state."""
    if seq is None:
        rows = CHECKPOINTS.queryset(thread.id).filter(**wanted).order_by("seq")
        if after is not None:
            rows = rows.filter(seq__gt=after)
        return CHECKPOINTS.read(rows[:limit])
    state = state_of(thread, seq)
    return [
        row
        for row in _rows(state, state.memory.listed())
        if all(getattr(row, field) == each for field, each in wanted.items())
        and (after is None or row.seq > after)
    ]


def get_checkpoint(
    thread: Thread, target: int | str, *, seq: int | None = None
) -> CheckpointLine:
    """One checkpoint, by number or name. Raises CheckpointUnknownError."""
    state = state_of(thread, seq)
    found = checkpoints.find(state.memory, clock_of(state, target))
    (line,) = lines(thread, state, [found])
    return line


def origin_of(thread: Thread, target: int | str) -> tuple[Thread, int]:
    """The thread whose event a checkpoint is, with its subject, and that event's seq.

    Raises CheckpointUnknownError.
    """
    state = state_of(thread)
    found = checkpoints.find(state.memory, clock_of(state, target))
    home, seq = state.place(found.clock)
    if home == thread.id:
        return thread, seq
    return Thread.objects.select_related("subject").get(id=home), seq


def clock_of(state: ThreadState, target: int | str) -> int | str:
    """A checkpoint as commands name it: numbers of a thread become its clock's."""
    if isinstance(target, str):
        return target
    return target + state.inherited_clock


def lines(
    thread: Thread, state: ThreadState, found: Iterable[Checkpoint]
) -> tuple[CheckpointLine, ...]:
    """These checkpoints of a state, with their descriptions. One query."""
    return _lines(thread, _rows(state, found))


def _rows(state: ThreadState, found: Iterable[Checkpoint]) -> list[CheckpointRow]:
    """As they are stored where the state is that of now."""
    rows = (CHECKPOINTS.made(state, state.seq_of(each.clock)) for each in found)
    return [row for row in rows if row is not None]


def _lines(thread: Thread, rows: Sequence[CheckpointRow]) -> tuple[CheckpointLine, ...]:
    places = [(row.event_thread, row.event_seq) for row in rows]
    opened = payloads.opened_at(thread, places)
    return tuple(
        _line(row, opened[place]) for row, place in zip(rows, places, strict=True)
    )


def _line(row: CheckpointRow, opened: Opened) -> CheckpointLine:
    return CheckpointLine(
        seq=row.seq,
        name=row.name,
        description=(opened.content or {}).get("description"),
        at=opened.at,
        by=opened.actor,
        auto=row.auto,
        parent=row.parent,
        counts=orjson.loads(row.counts),
        touched=row.touched,
    )


def number_of(receipt: Receipt, clock: int | None) -> int | None:
    """The number that the receipt's thread gives a checkpoint. At most one query."""
    if clock is None:
        return None
    if receipt.state is not None:
        return receipt.state.seq_of(clock)
    return clock - inherited_clock(Thread.objects.get(id=receipt.thread))


def inherited_clock(thread: Thread) -> int:
    """The thread's clock at the last event that it inherits."""
    return sum(up_to for _, _, _, up_to in orjson.loads(thread.lineage))


def _records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[CheckpointRecord]:
    left = iter(state.memory.listed())
    while batch := list(islice(left, CHUNK)):
        for line in lines(thread, state, batch):
            yield record_of(CheckpointRecord, line, thread=thread.id, **line.counts)


STATES = StateFile(
    path="state/checkpoints.jsonl",
    record=CheckpointRecord,
    lines=_records,
    needs=frozenset({"checkpoint.taken"}),
    counted="checkpoint.taken",
)
