"""A comparison as people read it, with texts of what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.slices import Moved
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import comparisons
from memoryhub.queries.memory.checkpoints import clock_of
from memoryhub.queries.memory.comparisons import HEAD, Comparison, KeyDifference, Point
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.memory.slice_views import Found
from memoryhub.queries.replay.states import state_of

#: Of a batch.
KEYS = 200
KINDS = ("added", "removed", "changed", "rewritten", "retimed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """What differs from `a` to `b`, with the texts."""

    comparison: Comparison
    #: By field, as each noun declares them.
    texts: Found
    #: By slice of many records, how many went and came.
    moved: Mapping[str, Moved]
    #: Of slices of one, by field of a comparison, how much differs; None: nothing.
    fields: Mapping[str, int | None]

    @property
    def counts(self) -> dict[str, int]:
        """Keys of this batch by what became of them."""
        kinds: list[str] = [each.kind for each in self.comparison.keys.items]
        return {kind: kinds.count(kind) for kind in KINDS}

    @property
    def bytes(self) -> int:
        """Bytes of values more than before, in this batch."""
        return sum(map(bytes_of, self.comparison.keys.items))

    @property
    def any(self) -> bool:
        comparison = self.comparison
        frames = (
            comparison.frames_in
            or comparison.frames_out
            or comparison.pins_in
            or comparison.pins_out
        )
        return bool(comparison.keys.items or frames or any(comparison.slices.values()))


def bytes_of(key: KeyDifference) -> int:
    """Bytes that a key's value has more than before."""
    before = key.before.bytes if key.before else 0
    return (key.after.bytes if key.after else 0) - before


def get_comparison(
    thread: Thread,
    a: Point,
    b: Point,
    *,
    values: bool = False,
    seq: int | None = None,
    after: str | None = None,
) -> ComparisonView:
    """Two checkpoints, or one and now. At most eight queries.

    `thread` comes with its subject. Raises as `comparisons.compare` does.
    """
    comparison = comparisons.compare(
        thread, a, b, values=values, seq=seq, after=after, limit=KEYS
    )
    state = state_of(thread, seq)
    return _view(thread, state, comparison, _contents(state, a), _contents(state, b))


def _view(
    thread: Thread,
    state: ThreadState,
    comparison: Comparison,
    one: Contents,
    other: Contents,
) -> ComparisonView:
    texts = {
        name: found
        for each in COMPARED
        for name, found in each.texts(
            thread, state, *each.values(one, other), comparison.slices
        ).items()
    }
    return ComparisonView(
        comparison=comparison,
        texts=texts,
        moved={
            each.slice.name: each.slice.moved(one, other)
            for each in COMPARED
            if each.slice.many
        },
        fields={
            name: len(texts[name]) if comparison.slices[name] else None
            for each in COMPARED
            if not each.slice.many
            for name in each.fields
        },
    )


def _contents(state: ThreadState, point: Point) -> Contents:
    if point == HEAD:
        return state.memory.contents
    return checkpoints.find(state.memory, clock_of(state, point)).contents
