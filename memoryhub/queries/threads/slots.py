"""Slots: read by index, by Python slice, by type, sender and turn. Never writes.

A fork's slots lie with its ancestors; a reading goes through one segment of each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from memoryhub.errors import CorruptError, NotFoundError
from memoryhub.journal.log import log
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import request_turn
from memoryhub.kernel.threads.slots import agent_time
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch, Listing, fitting
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.events import rows_at
from memoryhub.queries.threads.forks import get_segments

Order = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLine:
    """A slot as it is shown."""

    #: The thread it was read from.
    thread: UUID
    index: int
    #: The event it came with, in the journal of `home`.
    seq: int
    #: `thread`, or the ancestor it was inherited from.
    home: UUID
    at: datetime
    turn: int
    from_name: str
    to_name: str
    type: str
    role: str | None
    tokens: int
    bytes: int
    agent_at: datetime | None
    own_name: str | None
    is_self_call: bool | None
    erased: bool
    #: None once erased, when it was not asked for, or when null was sent.
    content: Any
    usage_instructions: str
    todo_nudge: str

    @property
    def inherited(self) -> bool:
        return self.home != self.thread

    @property
    def request_turn(self) -> int:
        """Give the turn whose request it answers, or the first whose could hold it."""
        return request_turn(self.turn, self.role)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFilter:
    """Which slots; what is None is not asked for. Equality, joined by AND."""

    type: str | None = None
    from_name: str | None = None
    to_name: str | None = None
    turn: int | None = None

    def plain(self) -> dict[str, Any]:
        """Return JSON values that identify this filter, and are Slot's columns."""
        return {name: getattr(self, name) for name in self.__slots__}


def count_slots(thread: Thread, *, at_seq: int | None = None) -> int:
    """Count the slots that the thread had as of a seq; now, if None.

    At most one query.
    """
    if at_seq is None or at_seq >= thread.head_seq:
        return thread.slot_count
    rows = Slot.objects.filter(thread_id=thread.id, seq__lte=at_seq)
    last = rows.order_by("-seq").values_list("index", flat=True).first()
    return get_segments(thread)[-1].first if last is None else last + 1


def list_slots(
    thread: Thread,
    *,
    start: int | None = None,
    end: int | None = None,
    where: SlotFilter | None = None,
    order: Order = "asc",
    content: bool = True,
    at_seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
    max_bytes: int | None = None,
) -> Batch[SlotLine]:
    """List the slots of the Python slice [start:end], in batches.

    `thread` comes with its subject. The first batch fixes the head and what negative
    bounds mean, in its cursor. Beyond `max_bytes` of content a batch ends, but not
    before its first slot; what is left out is not opened. Two queries, one more for
    each ancestor read, and one with `at_seq`. Raises BadCursorError.
    """
    where = where or SlotFilter()
    filters = [thread.id, start, end, where.plain(), order, at_seq]
    listing = Listing(name="slots", project=thread.project_id, filters=filters)
    if after is None:
        total = count_slots(thread, at_seq=at_seq)
        low, high, _ = slice(start, end).indices(total)
    else:
        low, high = listing.open(after)
    rows = _rows(thread, low, high, where, order, limit=limit + 1)
    size = _fitting(rows[:limit], max_bytes if content else None)
    batch, rest = rows[:size], rows[size:]
    items = _lines(thread, batch, content=content)
    if not rest:
        return Batch(items=items, next=None)
    last = batch[-1].index
    bounds = [last + 1, high] if order == "asc" else [low, last]
    return Batch(items=items, next=listing.seal(bounds))


def get_slot(
    thread: Thread, index: int, *, at_seq: int | None = None, content: bool = True
) -> SlotLine:
    """Return one slot; a negative index counts from the end, -1 is the newest.

    `thread` comes with its subject. An erased slot is one too: `erased` says so. Two
    queries, three with `at_seq`. Raises NotFoundError.
    """
    total = count_slots(thread, at_seq=at_seq)
    if not -total <= index < total:
        raise NotFoundError
    index %= total
    rows = _rows(thread, index, index + 1, SlotFilter(), "asc", limit=1)
    if not rows:
        raise CorruptError(missing_index=index)
    return _lines(thread, rows, content=content)[0]


def newest_messages(
    thread: Thread, *, limit: int, at_seq: int | None = None
) -> tuple[SlotLine, ...]:
    """Return the newest messages of user and assistant, the oldest first.

    As many as there are, up to `limit`; erased ones are none. `thread` comes with its
    subject. Two queries, one more for each ancestor read, and one with `at_seq`.
    """
    end, found = count_slots(thread, at_seq=at_seq), list[Slot]()
    for part in reversed(get_segments(thread)):
        own = Slot.objects.filter(
            thread_id=part.thread, index__gte=part.first, index__lt=min(part.end, end)
        )
        spoken = own.filter(role__in=("user", "assistant"), erased=False)
        found += spoken.order_by("-index")[: limit - len(found)]
        if len(found) == limit:
            break
    return _lines(thread, found[::-1], content=True)


def get_slots(
    thread: Thread, indexes: Collection[int], *, content: bool = True
) -> tuple[SlotLine, ...]:
    """Return these slots, the lowest first; those that are not there are left out.

    Two queries, one more for each ancestor read.
    """
    found: list[Slot] = []
    for part in get_segments(thread):
        wanted = [index for index in indexes if part.first <= index < part.end]
        if wanted:
            rows = Slot.objects.filter(thread_id=part.thread, index__in=wanted)
            found += rows.order_by("index")
    return _lines(thread, found, content=content)


def slots_around(
    thread: Thread, seq: int, *, before: int, after: int, content: bool = True
) -> tuple[SlotLine, ...]:
    """Return up to `before` slots of the state at `seq`, and up to `after` later."""
    here = count_slots(thread, at_seq=seq)
    low, high = max(0, here - before), min(thread.slot_count, here + after)
    rows = _rows(thread, low, high, SlotFilter(), "asc", limit=before + after)
    return _lines(thread, rows, content=content)


def _rows(
    thread: Thread, low: int, high: int, where: SlotFilter, order: Order, *, limit: int
) -> list[Slot]:
    """Matching rows with low <= index < high, at most `limit`."""
    named = {name: value for name, value in where.plain().items() if value is not None}
    found: list[Slot] = []
    parts = get_segments(thread)
    for part in parts if order == "asc" else reversed(parts):
        first, end = max(low, part.first), min(high, part.end)
        if first >= end or len(found) >= limit:
            continue
        rows = Slot.objects.filter(
            thread_id=part.thread, index__gte=first, index__lt=end, **named
        )
        rows = rows.order_by("index" if order == "asc" else "-index")
        found += rows[: limit - len(found)]
    return found


def _fitting(rows: Sequence[Slot], max_bytes: int | None) -> int:
    if max_bytes is None:
        return len(rows)
    return fitting((row.bytes for row in rows), max_bytes=max_bytes)


def _lines(
    thread: Thread, rows: Sequence[Slot], *, content: bool
) -> tuple[SlotLine, ...]:
    places = ((row.thread_id, row.seq) for row in rows)
    events = rows_at(places, content=content)
    return tuple(
        line_of(thread, row, events.get((row.thread_id, row.seq)), content=content)
        for row in rows
    )


def line_of(
    thread: Thread, row: Slot, stored: Event | None, *, content: bool
) -> SlotLine:
    """Return a slot with its event as it is shown, opened if its content is wanted.

    `thread` comes with its subject. No query. Raises CorruptError without the event.
    """
    if stored is None:
        raise CorruptError(missing_seq=row.seq)
    event = log.recorded(stored).event
    assert isinstance(event, SlotAppended)
    opened = replay.opened(thread, stored) if content else {}
    return SlotLine(
        thread=thread.id,
        index=row.index,
        seq=row.seq,
        home=row.thread_id,
        at=stored.at,
        turn=row.turn,
        from_name=row.from_name,
        to_name=row.to_name,
        type=row.type,
        role=row.role,
        tokens=row.tokens,
        bytes=row.bytes,
        agent_at=agent_time(opened),
        own_name=event.own_name,
        is_self_call=opened.get("is_self_call"),
        erased=row.erased or stored.erased_by is not None,
        content=opened.get("content"),
        usage_instructions=opened.get("usage_instructions", ""),
        todo_nudge=opened.get("todo_nudge", ""),
    )
