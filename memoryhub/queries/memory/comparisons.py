"""Two moments of working memory compared: checkpoints, or one and now. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from memoryhub.journal.rows.projections import Rows
from memoryhub.journal.writing.page_table import PageTable
from memoryhub.kernel.memory import checkpoint_tree, checkpoints, resident
from memoryhub.kernel.memory.checkpoints import Changes
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents, KeyEntry, Resident
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, Batch, Listing, fitting
from memoryhub.queries.memory.checkpoints import clock_of
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.memory.slice_views import Found
from memoryhub.queries.replay import payloads
from memoryhub.queries.replay.states import now_of, state_of

#: `rewritten` is the same value by another event, `retimed` another expiry alone.
DifferenceKind = Literal["added", "removed", "changed", "rewritten", "retimed"]
#: The moment that is now.
HEAD = "head"

Point = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A key at one of the moments."""

    version: int
    expires_at: datetime | None
    bytes: int
    #: None when values were not asked for, or it was erased.
    value: Any
    opened: bool
    #: It was asked for, and is gone for good.
    erased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    name: str
    kind: DifferenceKind
    before: Side | None
    after: Side | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What differs from `a` to `b`. Keys come in batches, the rest with each."""

    #: The thread's head, or the seq that was asked for.
    seq: int
    keys: Batch[KeyDifference]
    #: By field, as each noun declares them: names or numbers of what differs.
    slices: Found
    #: Page ids.
    frames_in: tuple[str, ...]
    frames_out: tuple[str, ...]
    pins_in: tuple[str, ...]
    pins_out: tuple[str, ...]


class _Moment(NamedTuple):
    #: None is now.
    clock: int | None
    contents: Contents
    resident: Resident


class _Pair(NamedTuple):
    name: str
    before: KeyEntry | None
    after: KeyEntry | None


def compare(
    thread: Thread,
    a: Point,
    b: Point,
    *,
    values: bool = False,
    seq: int | None = None,
    after: str | None = None,
    limit: int = 200,
) -> Comparison:
    """What differs between two checkpoints, or one and now. At most six queries.

    Visits the names touched on the way from one to the other, and opens values only
    where one was written again in the same step of length, or all if asked. `thread`
    comes with its subject. Raises CheckpointUnknownError, BadCursorError.
    """
    listing = Listing(
        name="compare",
        project=thread.project_id,
        filters=[thread.id, a, b, values, seq],
    )
    at_seq, moment, last = seq, None, ""
    if after is not None:
        at_seq, instant, last = listing.open(after)
        moment = datetime.fromisoformat(instant)
    state = state_of(thread, at_seq)
    now = moment or now_of(state, seq)
    one, other = _moment(state, a), _moment(state, b)
    pairs = [each for each in _pairs(state, one, other, now) if each.name > last]
    size = _fitting(pairs[:limit], values=values)
    more = None
    if len(pairs) > size:
        place = [state.seq, now.isoformat(), pairs[size - 1].name]
        more = listing.seal(place)
    found = _differences(thread, state, pairs[:size], values=values)
    return _compared(thread, state, one, other, Batch(items=found, next=more))


def preview(
    thread: Thread, target: Point, parts: Sequence[str]
) -> tuple[Changes, tuple[str, ...]]:
    """What restoring these parts would change now, and pages that can't come back.

    Raises CheckpointUnknownError, and PinBudgetError as the restore would.
    """
    state = state_of(thread)
    found = checkpoints.find(state.memory, clock_of(state, target))
    changes = checkpoints.changes(state, found, parts, at=now_of(state))
    if "frames" not in parts:
        return changes, ()
    table = PageTable(state, Rows())
    back = resident.returning(state, found.resident, table)
    return changes, tuple(back.left_out)


def _moment(state: ThreadState, point: Point) -> _Moment:
    if point == HEAD:
        return _Moment(None, state.memory.contents, resident.of(state.paging))
    found = checkpoints.find(state.memory, clock_of(state, point))
    return _Moment(found.clock, found.contents, found.resident)


def _pairs(
    state: ThreadState, one: _Moment, other: _Moment, now: datetime
) -> list[_Pair]:
    """Keys that differ, by name; one whose instant has passed is on neither side."""
    names = checkpoint_tree.names_between(state.memory, one.clock, other.clock)
    pairs = [
        _Pair(n, one.contents.find(n, now=now), other.contents.find(n, now=now))
        for n in names
    ]
    return [pair for pair in pairs if pair.before != pair.after]


def _fitting(pairs: Sequence[_Pair], *, values: bool) -> int:
    """How many go into one part, by the values that must be opened for them."""
    sizes = (
        sum(entry.bytes for entry in pair[1:] if entry is not None)
        if values or _undecided(pair)
        else 0
        for pair in pairs
    )
    return fitting(sizes, max_bytes=PART_BYTES)


def _differences(
    thread: Thread, state: ThreadState, pairs: Sequence[_Pair], *, values: bool
) -> tuple[KeyDifference, ...]:
    wanted = [
        entry.value
        for pair in pairs
        if values or _undecided(pair)
        for entry in pair[1:]
        if entry is not None
    ]
    opened = payloads.opened(thread, state, wanted)
    return tuple(_difference(state, pair, opened, values=values) for pair in pairs)


def _undecided(pair: _Pair) -> bool:
    """Whether only the values themselves can tell if they are the same."""
    before, after = pair.before, pair.after
    if before is None or after is None or before.value == after.value:
        return False
    return before.bytes == after.bytes


def _difference(
    state: ThreadState,
    pair: _Pair,
    opened: dict[int, payloads.Opened],
    *,
    values: bool,
) -> KeyDifference:
    shown = opened if values else {}
    return KeyDifference(
        name=pair.name,
        kind=_kind(pair, opened),
        before=_side(state, pair.before, shown),
        after=_side(state, pair.after, shown),
    )


def _kind(pair: _Pair, opened: dict[int, payloads.Opened]) -> DifferenceKind:
    before, after = pair.before, pair.after
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if before.value == after.value:
        return "retimed"
    if not _undecided(pair):
        return "changed"
    one, other = opened[before.value].content, opened[after.value].content
    if one is None or other is None:
        return "changed"
    # As texts: to Python `true` equals 1.
    same = strict_json.canonical(one) == strict_json.canonical(other)
    return "rewritten" if same else "changed"


def _side(
    state: ThreadState, entry: KeyEntry | None, opened: dict[int, payloads.Opened]
) -> Side | None:
    if entry is None:
        return None
    found = opened.get(entry.value)
    content = found.content if found else None
    return Side(
        version=state.seq_of(entry.version),
        expires_at=entry.expires_at,
        bytes=entry.bytes,
        value=content["value"] if content is not None else None,
        opened=content is not None,
        erased=found is not None and found.erased,
    )


def _compared(
    thread: Thread,
    state: ThreadState,
    one: _Moment,
    other: _Moment,
    keys: Batch[KeyDifference],
) -> Comparison:
    frames = {*one.resident.frames}, {*other.resident.frames}
    pins = {*one.resident.pins}, {*other.resident.pins}
    return Comparison(
        seq=state.seq,
        keys=keys,
        slices={
            name: found
            for each in COMPARED
            for name, found in each.names(
                thread, state, *each.values(one.contents, other.contents)
            ).items()
        },
        frames_in=tuple(sorted(frames[1] - frames[0])),
        frames_out=tuple(sorted(frames[0] - frames[1])),
        pins_in=tuple(sorted(pins[1] - pins[0])),
        pins_out=tuple(sorted(pins[0] - pins[1])),
    )
