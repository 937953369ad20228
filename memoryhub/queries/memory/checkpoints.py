"""Checkpoints of a thread: lists, lookups and export records. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from memoryhub.journal import OrderReceipt, texts
from memoryhub.journal.rows.checkpoint_rows import CHECKPOINTS
from memoryhub.journal.rows.rows import CheckpointRow
from memoryhub.journal.texts import OpenedEvent
from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.memory.checkpoint_events import COUNTED, CheckpointRestored
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import SavedCheckpoint
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.replay.state_files import CHUNK, StateFile, build_record
from memoryhub.queries.replay.states import load_state

#: Newest events among which `find_last_restore` looks.
RECENT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLine:
    """A checkpoint in a list; its values are not read."""

    #: The seq of the checkpoint's event; ≤ 0 if inherited.
    seq: int
    name: str | None
    description: str | None
    at: datetime
    by: str
    auto: bool
    parent: int | None
    #: Sizes of the checkpoint's contents, including expired keys not yet swept.
    counts: Mapping[str, Any]
    #: Names touched since the parent checkpoint; None: any name may have been touched.
    touched: int | None
    #: Thread and seq of the checkpoint's event: an ancestor's if inherited.
    origin: tuple[UUID, int]


class LastRestore(NamedTuple):
    """The event by which parts of working memory were restored last."""

    seq: int
    at: datetime
    #: Number of the checkpoint; ≤ 0 if inherited.
    target: int
    #: None without a name, and of an inherited checkpoint.
    name: str | None


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
) -> ListBatch[CheckpointLine]:
    """List checkpoints by seq, in batches. `thread` comes with its subject.

    Two queries, whatever the checkpoints hold: descriptions are read, values never.
    Raises BadCursorError.
    """
    listing = ListScope(
        name="checkpoints",
        project=thread.project_id,
        filters=[thread.id, name, auto, seq],
    )
    last: int | None = None
    if after is not None:
        (last,) = listing.open(after)
    filters = {"name": name, "auto": auto}
    wanted = {field: each for field, each in filters.items() if each is not None}
    found = _list_rows(thread, wanted, seq=seq, after=last, limit=limit + 1)
    batch = found[:limit]
    more = listing.seal([batch[-1].seq]) if len(found) > limit else None
    return ListBatch(items=_open_lines(thread, batch), next=more)


def _list_rows(
    thread: Thread,
    wanted: Mapping[str, Any],
    *,
    seq: int | None,
    after: int | None,
    limit: int,
) -> list[CheckpointRow]:
    """Read the current checkpoints from rows, or those as of `seq` from the state."""
    if seq is None:
        rows = CHECKPOINTS.filter_thread(thread.id).filter(**wanted).order_by("seq")
        if after is not None:
            rows = rows.filter(seq__gt=after)
        return CHECKPOINTS.read(rows[:limit])
    state = load_state(thread, seq)
    return [
        row
        for row in _build_rows(state, state.memory.list_live())
        if all(getattr(row, field) == each for field, each in wanted.items())
        and (after is None or row.seq > after)
    ]


def get_checkpoint(
    thread: Thread, target: int | str, *, seq: int | None = None
) -> CheckpointLine:
    """Return one checkpoint, by number or name. Raises CheckpointUnknownError."""
    state = load_state(thread, seq)
    found = checkpoints.require_checkpoint(state.memory, to_clock(state, target))
    (line,) = build_lines(thread, state, [found])
    return line


def find_last_restore(
    thread: Thread, part: str, *, seq: int | None = None
) -> LastRestore | None:
    """Find the thread's last restore if it restored a part, RECENT events ago at most.

    One query without a restore, else two.
    """
    head = thread.head_seq if seq is None else seq
    rows = Event.objects.filter(thread=thread, seq__gt=head - RECENT, seq__lte=head)
    found = rows.filter(type=CheckpointRestored.event_type).order_by("-seq").first()
    body = orjson.loads(found.body) if found else {}
    if found is None or part not in body["parts"]:
        return None
    target = body["target"] - count_inherited_clock(thread)
    taken = Event.objects.filter(thread=thread, seq=target).first()
    name = orjson.loads(taken.body).get("name") if taken else None
    return LastRestore(found.seq, found.at, target, name)


def find_origin(thread: Thread, target: int | str) -> tuple[Thread, int]:
    """Return the thread, with its subject, and the seq of a checkpoint's event.

    Raises CheckpointUnknownError.
    """
    state = load_state(thread)
    found = checkpoints.require_checkpoint(state.memory, to_clock(state, target))
    home, seq = state.locate_event(found.clock)
    if home == thread.id:
        return thread, seq
    return Thread.objects.select_related("subject").get(id=home), seq


def to_clock(state: ThreadState, target: int | str) -> int | str:
    """Convert a checkpoint number of the thread to a clock; names stay as given."""
    if isinstance(target, str):
        return target
    return target + state.inherited_clock


def build_lines(
    thread: Thread, state: ThreadState, found: Iterable[SavedCheckpoint]
) -> tuple[CheckpointLine, ...]:
    """Build lines of a state's checkpoints, with descriptions. One query."""
    return _open_lines(thread, _build_rows(state, found))


def _build_rows(
    state: ThreadState, found: Iterable[SavedCheckpoint]
) -> list[CheckpointRow]:
    """Build checkpoint rows from a state, shaped like the stored rows."""
    rows = (CHECKPOINTS.build_row(state, state.to_seq(each.clock)) for each in found)
    return [row for row in rows if row is not None]


def _open_lines(
    thread: Thread, rows: Sequence[CheckpointRow]
) -> tuple[CheckpointLine, ...]:
    places = [(row.event_thread, row.event_seq) for row in rows]
    opened = texts.open_events_at(thread, places)
    return tuple(
        _build_line(row, opened[place]) for row, place in zip(rows, places, strict=True)
    )


def _build_line(row: CheckpointRow, opened: OpenedEvent) -> CheckpointLine:
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
        origin=(row.event_thread, row.event_seq),
    )


def to_number(receipt: OrderReceipt, clock: int | None) -> int | None:
    """Return a checkpoint's number in the receipt's thread. At most one query."""
    if clock is None:
        return None
    if receipt.state is not None:
        return receipt.state.to_seq(clock)
    return clock - count_inherited_clock(Thread.objects.get(id=receipt.thread))


def count_inherited_clock(thread: Thread) -> int:
    """Return the thread's clock at the last event that the thread inherits."""
    return sum(up_to for _, _, _, up_to in orjson.loads(thread.lineage))


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[CheckpointRecord]:
    left = iter(state.memory.list_live())
    while batch := list(islice(left, CHUNK)):
        for line in build_lines(thread, state, batch):
            yield build_record(CheckpointRecord, line, thread=thread.id, **line.counts)


STATES = StateFile(
    path="state/checkpoints.jsonl",
    record=CheckpointRecord,
    lines=_iter_records,
    needs=frozenset({"checkpoint.taken"}),
    counted="checkpoint.taken",
)
