"""Comparison of two checkpoints, or of one checkpoint and now. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from memoryhub.journal import texts
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.memory import checkpoint_tree, checkpoints, resident
from memoryhub.kernel.memory.checkpoints import RestoreChanges
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents, KeyEntry, Resident
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import (
    PART_BYTES,
    ListBatch,
    ListScope,
    count_fitting,
)
from memoryhub.queries.memory.checkpoints import to_clock
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.memory.slice_views import SliceDifferences
from memoryhub.queries.replay.states import compute_instant, load_state

#: `rewritten`: another event wrote an equal value; `retimed`: only the expiry differs.
DifferenceKind = Literal["added", "removed", "changed", "rewritten", "retimed"]
#: The point that stands for the current state.
HEAD = "head"

Point = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySide:
    """A key at one of the two points of a comparison."""

    version: int
    expires_at: datetime | None
    bytes: int
    #: None when values were not requested or the value was erased.
    value: Any
    opened: bool
    #: Whether the value was requested and has been erased.
    erased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    name: str
    kind: DifferenceKind
    before: KeySide | None
    after: KeySide | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Differences from `a` to `b`: keys in batches, all else in every batch."""

    #: The thread's head, or the requested seq.
    seq: int
    keys: ListBatch[KeyDifference]
    #: Names or numbers of differences by field, as each noun declares its fields.
    slices: SliceDifferences
    #: Page ids.
    frames_in: tuple[str, ...]
    frames_out: tuple[str, ...]
    pins_in: tuple[str, ...]
    pins_out: tuple[str, ...]


class _PointContents(NamedTuple):
    #: None is the current state.
    clock: int | None
    contents: Contents
    resident: Resident


class _KeyPair(NamedTuple):
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
    """Compare two checkpoints, or one and now. At most six queries.

    Visits only the names touched on the way from one point to the other. Opens values
    only where an event wrote a value of the same padded size again, or all values with
    `values`. `thread` comes with its subject. Raises CheckpointUnknownError,
    BadCursorError.
    """
    listing = ListScope(
        name="compare",
        project=thread.project_id,
        filters=[thread.id, a, b, values, seq],
    )
    at_seq, moment, last = seq, None, ""
    if after is not None:
        at_seq, instant, last = listing.open(after)
        moment = datetime.fromisoformat(instant)
    state = load_state(thread, at_seq)
    now = moment or compute_instant(state, seq)
    one, other = _get_contents(state, a), _get_contents(state, b)
    pairs = [each for each in _pair_keys(state, one, other, now) if each.name > last]
    size = _count_fitting(pairs[:limit], values=values)
    more = None
    if len(pairs) > size:
        place = [state.seq, now.isoformat(), pairs[size - 1].name]
        more = listing.seal(place)
    found = _build_differences(thread, state, pairs[:size], values=values)
    return _build_comparison(
        thread, state, one, other, ListBatch(items=found, next=more)
    )


def preview_restore(
    thread: Thread, target: Point, parts: Sequence[str]
) -> tuple[RestoreChanges, tuple[str, ...]]:
    """Preview a restore of these parts: its changes, and pages that cannot return.

    Raises CheckpointUnknownError, and PinBudgetError as the restore would.
    """
    state = load_state(thread)
    found = checkpoints.require_checkpoint(state.memory, to_clock(state, target))
    changes = checkpoints.compute_changes(
        state, found, parts, at=compute_instant(state)
    )
    if "frames" not in parts:
        return changes, ()
    table = StoredPageTable(state, ProjectedRows())
    back = resident.plan_return(state, found.resident, table)
    return changes, tuple(back.left_out)


def _get_contents(state: ThreadState, point: Point) -> _PointContents:
    if point == HEAD:
        return _PointContents(
            None, state.memory.contents, resident.build_resident(state.paging)
        )
    found = checkpoints.require_checkpoint(state.memory, to_clock(state, point))
    return _PointContents(found.clock, found.contents, found.resident)


def _pair_keys(
    state: ThreadState, one: _PointContents, other: _PointContents, now: datetime
) -> list[_KeyPair]:
    """Pair the keys that differ, by name; an expired key is absent from its side."""
    names = checkpoint_tree.list_names_between(state.memory, one.clock, other.clock)
    pairs = [
        _KeyPair(
            n, one.contents.find_key(n, now=now), other.contents.find_key(n, now=now)
        )
        for n in names
    ]
    return [pair for pair in pairs if pair.before != pair.after]


def _count_fitting(pairs: Sequence[_KeyPair], *, values: bool) -> int:
    """Count the pairs that fit one batch, by the bytes of the values to open."""
    sizes = (
        sum(entry.bytes for entry in pair[1:] if entry is not None)
        if values or _needs_values(pair)
        else 0
        for pair in pairs
    )
    return count_fitting(sizes, max_bytes=PART_BYTES)


def _build_differences(
    thread: Thread, state: ThreadState, pairs: Sequence[_KeyPair], *, values: bool
) -> tuple[KeyDifference, ...]:
    wanted = [
        entry.value
        for pair in pairs
        if values or _needs_values(pair)
        for entry in pair[1:]
        if entry is not None
    ]
    opened = texts.open_events(thread, state, wanted)
    return tuple(
        _build_difference(state, pair, opened, values=values) for pair in pairs
    )


def _needs_values(pair: _KeyPair) -> bool:
    """Tell whether only the values show if both sides are equal."""
    before, after = pair.before, pair.after
    if before is None or after is None or before.value == after.value:
        return False
    return before.bytes == after.bytes


def _build_difference(
    state: ThreadState,
    pair: _KeyPair,
    opened: dict[int, texts.OpenedEvent],
    *,
    values: bool,
) -> KeyDifference:
    shown = opened if values else {}
    return KeyDifference(
        name=pair.name,
        kind=_find_kind(pair, opened),
        before=_build_side(state, pair.before, shown),
        after=_build_side(state, pair.after, shown),
    )


def _find_kind(pair: _KeyPair, opened: dict[int, texts.OpenedEvent]) -> DifferenceKind:
    before, after = pair.before, pair.after
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if before.value == after.value:
        return "retimed"
    if not _needs_values(pair):
        return "changed"
    one, other = opened[before.value].content, opened[after.value].content
    if one is None or other is None:
        return "changed"
    # Compare as JSON text: in Python `True == 1`.
    same = strict_json.dump_canonical(one) == strict_json.dump_canonical(other)
    return "rewritten" if same else "changed"


def _build_side(
    state: ThreadState, entry: KeyEntry | None, opened: dict[int, texts.OpenedEvent]
) -> KeySide | None:
    if entry is None:
        return None
    found = opened.get(entry.value)
    content = found.content if found else None
    return KeySide(
        version=state.to_seq(entry.version),
        expires_at=entry.expires_at,
        bytes=entry.bytes,
        value=content["value"] if content is not None else None,
        opened=content is not None,
        erased=found is not None and found.erased,
    )


def _build_comparison(
    thread: Thread,
    state: ThreadState,
    one: _PointContents,
    other: _PointContents,
    keys: ListBatch[KeyDifference],
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
                thread, state, *each.get_values(one.contents, other.contents)
            ).items()
        },
        frames_in=tuple(sorted(frames[1] - frames[0])),
        frames_out=tuple(sorted(frames[0] - frames[1])),
        pins_in=tuple(sorted(pins[1] - pins[0])),
        pins_out=tuple(sorted(pins[0] - pins[1])),
    )
