"""Checkpoints of a thread: the list, and how two moments differ. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

import orjson

from memoryhub.journal import Receipt
from memoryhub.kernel import checkpoints
from memoryhub.kernel.notes import NOTES
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.tasks import TASK
from memoryhub.kernel.working_memory import Checkpoint
from memoryhub.models.threads import Thread
from memoryhub.queries import payloads
from memoryhub.queries.cursors import Batch, Listing
from memoryhub.queries.state_files import CHUNK, StateFile
from memoryhub.queries.states import state_of


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
    #: Those not yet swept included.
    keys: int
    notes: int
    has_task: bool
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
    keys: int
    notes: int
    has_task: bool


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
    state = state_of(thread, seq)
    found = [
        each
        for each in state.memory.listed()
        if name in (None, each.name) and auto in (None, each.auto)
    ]
    if after is not None:
        (last,) = listing.open(after)
        found = [each for each in found if each.clock > last]
    batch = found[:limit]
    more = listing.seal([batch[-1].clock]) if len(found) > limit else None
    return Batch(items=lines(thread, state, batch), next=more)


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
    thread: Thread, state: ThreadState, found: Sequence[Checkpoint]
) -> tuple[CheckpointLine, ...]:
    """These checkpoints with their times and descriptions. One query."""
    told = payloads.opened(thread, state, [each.clock for each in found])
    return tuple(
        CheckpointLine(
            seq=state.seq_of(each.clock),
            name=each.name,
            description=(told[each.clock].content or {}).get("description"),
            at=told[each.clock].at,
            by=told[each.clock].actor,
            auto=each.auto,
            parent=None if each.parent is None else state.seq_of(each.parent),
            keys=len(each.contents.keys),
            notes=len(NOTES.get(each.contents).lines),
            has_task=TASK.get(each.contents) is not None,
            touched=None if each.touched is None else len(each.touched),
        )
        for each in found
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
    while some := list(islice(left, CHUNK)):
        for line in lines(thread, state, some):
            yield CheckpointRecord(
                thread=thread.id,
                seq=line.seq,
                name=line.name,
                description=line.description,
                at=line.at,
                by=line.by,
                auto=line.auto,
                parent=line.parent,
                keys=line.keys,
                notes=line.notes,
                has_task=line.has_task,
            )


STATES = StateFile(
    path="state/checkpoints.jsonl",
    record=CheckpointRecord,
    lines=_records,
    needs=frozenset({"checkpoint.taken"}),
)
