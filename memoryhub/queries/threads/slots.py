"""Slots by index, by Python slice, by type, sender and turn. Never writes.

A fork's inherited slots lie in its ancestors' journals; a read visits one segment of
each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.db.models import Q

from memoryhub.errors import CorruptError, NotFoundError
from memoryhub.journal import texts
from memoryhub.journal.log import log
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import compute_request_turn
from memoryhub.kernel.state.state import LineageSegment
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope, count_fitting
from memoryhub.queries.threads.events import get_rows_at
from memoryhub.queries.threads.forks import get_segments

#: An agent's time is told where it is further from the recording.
_APART = timedelta(minutes=1)
Order = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLine:
    """A slot in a list or on its own."""

    #: The thread from which the slot was listed.
    thread: UUID
    index: int
    #: The seq of the slot's event, in the journal of `home`.
    seq: int
    #: `thread`, or the ancestor from which the slot is inherited.
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
    #: Seq of the slot.struck event in `home`; None if the slot is not struck.
    struck_seq: int | None
    #: None if erased, not requested, or sent as null.
    content: Any
    usage_instructions: str
    todo_nudge: str

    @property
    def inherited(self) -> bool:
        return self.home != self.thread

    @property
    def is_agent_timed(self) -> bool:
        """Tell whether the agent's time is more than a minute from the recording."""
        return self.agent_at is not None and abs(self.agent_at - self.at) > _APART

    @property
    def struck(self) -> bool:
        """Return whether lists, requests and searches leave the slot out."""
        return self.struck_seq is not None

    @property
    def is_shown(self) -> bool:
        """Return whether requests may show the slot: neither erased nor struck."""
        return not (self.erased or self.struck)

    @property
    def request_turn(self) -> int:
        """Return the turn that the slot answers, or the first that may include it."""
        return compute_request_turn(self.turn, self.role)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFilter:
    """Filter of slots by equality; None matches any value, fields joined by AND."""

    type: str | None = None
    from_name: str | None = None
    to_name: str | None = None
    turn: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values that identify this filter, keyed by columns of Slot."""
        return {name: getattr(self, name) for name in self.__slots__}


def count_slots(thread: Thread, *, at_seq: int | None = None) -> int:
    """Count the thread's slots as of a seq; now, if None.

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
    struck: bool = False,
    after: str | None = None,
    limit: int = 50,
    max_bytes: int | None = None,
) -> ListBatch[SlotLine]:
    """List the slots of the Python slice [start:end], in batches.

    `thread` comes with its subject. The first batch fixes the head and resolves
    negative bounds, in its cursor. A batch ends once content exceeds `max_bytes`, but
    has at least one slot; slots beyond are not opened. Struck slots are left out unless
    `struck` is set. Two queries, one more for each ancestor read, and one with
    `at_seq`. Raises BadCursorError.
    """
    where = where or SlotFilter()
    filters = [thread.id, start, end, where.to_dict(), order, at_seq, struck]
    listing = ListScope(name="slots", project=thread.project_id, filters=filters)
    if after is None:
        total = count_slots(thread, at_seq=at_seq)
        low, high, _ = slice(start, end).indices(total)
    else:
        low, high = listing.open(after)
    rows = _list_rows(
        thread, low, high, where, order, limit=limit + 1, struck=struck, at_seq=at_seq
    )
    size = _count_fitting(rows[:limit], max_bytes if content else None)
    batch, rest = rows[:size], rows[size:]
    items = _build_lines(thread, batch, content=content)
    if not rest:
        return ListBatch(items=items, next=None)
    last = batch[-1].index
    bounds = [last + 1, high] if order == "asc" else [low, last]
    return ListBatch(items=items, next=listing.seal(bounds))


def get_slot(
    thread: Thread, index: int, *, at_seq: int | None = None, content: bool = True
) -> SlotLine:
    """Return one slot; a negative index counts from the end, -1 is the newest.

    `thread` comes with its subject. An erased slot is returned with `erased` set, a
    struck one with `struck`. Two queries, three with `at_seq`. Raises NotFoundError.
    """
    total = count_slots(thread, at_seq=at_seq)
    if not -total <= index < total:
        raise NotFoundError
    index %= total
    rows = _list_rows(thread, index, index + 1, SlotFilter(), "asc", limit=1)
    if not rows:
        raise CorruptError(missing_index=index)
    return _build_lines(thread, rows, content=content)[0]


def list_newest_messages(
    thread: Thread, *, limit: int, at_seq: int | None = None
) -> tuple[SlotLine, ...]:
    """List the newest messages of user and assistant, oldest first.

    At most `limit` messages; erased and struck ones do not count. `thread` comes with
    its subject. Two queries, one more for each ancestor read, and one with `at_seq`.
    """
    end, found = count_slots(thread, at_seq=at_seq), list[Slot]()
    for part in reversed(get_segments(thread)):
        own = Slot.objects.filter(
            thread_id=part.thread, index__gte=part.first, index__lt=min(part.end, end)
        )
        spoken = own.filter(
            _build_shown(thread, part, at_seq),
            role__in=("user", "assistant"),
            erased=False,
        )
        found += spoken.order_by("-index")[: limit - len(found)]
        if len(found) == limit:
            break
    return _build_lines(thread, found[::-1], content=True)


def get_slots(
    thread: Thread, indexes: Collection[int], *, content: bool = True
) -> tuple[SlotLine, ...]:
    """Return these slots, lowest index first; absent indexes are left out.

    Two queries, one more for each ancestor read.
    """
    found: list[Slot] = []
    for part in get_segments(thread):
        wanted = [index for index in indexes if part.first <= index < part.end]
        if wanted:
            rows = Slot.objects.filter(thread_id=part.thread, index__in=wanted)
            found += rows.order_by("index")
    return _build_lines(thread, found, content=content)


def map_indexes(
    project: UUID, places: Collection[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Map records that are messages, by thread name and seq, to their slot indexes.

    At most one query.
    """
    named = Q()
    for name, seq in places:
        named |= Q(thread__name=name, seq=seq)
    if not named:
        return {}
    rows = Slot.objects.filter(named, thread__project=project)
    found = rows.values_list("thread__name", "seq", "index")
    return {(name, seq): index for name, seq, index in found}


def list_slots_around(
    thread: Thread, seq: int, *, before: int, after: int, content: bool = True
) -> tuple[SlotLine, ...]:
    """List up to `before` slots of the state at `seq`, and up to `after` later ones."""
    here = count_slots(thread, at_seq=seq)
    low, high = max(0, here - before), min(thread.slot_count, here + after)
    rows = _list_rows(thread, low, high, SlotFilter(), "asc", limit=before + after)
    return _build_lines(thread, rows, content=content)


def _list_rows(
    thread: Thread,
    low: int,
    high: int,
    where: SlotFilter,
    order: Order,
    *,
    limit: int,
    struck: bool = True,
    at_seq: int | None = None,
) -> list[Slot]:
    """List matching rows with low <= index < high, at most `limit`.

    Without `struck`, leave out slots that are struck as of `at_seq`.
    """
    named = {
        name: value for name, value in where.to_dict().items() if value is not None
    }
    found: list[Slot] = []
    parts = get_segments(thread)
    for part in parts if order == "asc" else reversed(parts):
        first, end = max(low, part.first), min(high, part.end)
        if first >= end or len(found) >= limit:
            continue
        rows = Slot.objects.filter(
            thread_id=part.thread, index__gte=first, index__lt=end, **named
        )
        if not struck:
            rows = rows.filter(_build_shown(thread, part, at_seq))
        rows = rows.order_by("index" if order == "asc" else "-index")
        found += rows[: limit - len(found)]
    return found


def _build_shown(thread: Thread, part: LineageSegment, at_seq: int | None) -> Q:
    """Build the condition on a segment's slots that the thread sees as not struck.

    A strike in an ancestor after the fork does not count.
    """
    last = part.up_to_seq if part.thread != thread.id else at_seq
    shown = Q(struck_seq=None)
    return shown if last is None else shown | Q(struck_seq__gt=last)


def _count_fitting(rows: Sequence[Slot], max_bytes: int | None) -> int:
    if max_bytes is None:
        return len(rows)
    return count_fitting((row.bytes for row in rows), max_bytes=max_bytes)


def _build_lines(
    thread: Thread, rows: Sequence[Slot], *, content: bool
) -> tuple[SlotLine, ...]:
    places = ((row.thread_id, row.seq) for row in rows)
    events = get_rows_at(places, content=content)
    return tuple(
        build_line(thread, row, events.get((row.thread_id, row.seq)), content=content)
        for row in rows
    )


def build_line(
    thread: Thread, row: Slot, stored: Event | None, *, content: bool
) -> SlotLine:
    """Build a slot's line from its row and event; content is opened if requested.

    `thread` comes with its subject. No query. Raises CorruptError without the event.
    """
    if stored is None:
        raise CorruptError(missing_seq=row.seq)
    event = log.to_recorded(stored).event
    assert isinstance(event, SlotAppended)
    opened = texts.open_content(thread, stored) if content else {}
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
        agent_at=parse_agent_time(opened),
        own_name=event.own_name,
        is_self_call=opened.get("is_self_call"),
        erased=row.erased or stored.erased_by is not None,
        struck_seq=_find_strike(thread, row),
        content=opened.get("content"),
        usage_instructions=opened.get("usage_instructions", ""),
        todo_nudge=opened.get("todo_nudge", ""),
    )


def _find_strike(thread: Thread, row: Slot) -> int | None:
    """Return the seq of the strike that the thread sees now; None without one."""
    if row.struck_seq is None or row.thread_id == thread.id:
        return row.struck_seq
    parts = {part.thread: part.up_to_seq for part in get_segments(thread)}
    return row.struck_seq if row.struck_seq <= parts[row.thread_id] else None
