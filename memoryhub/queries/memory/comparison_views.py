"""Comparisons for people, with the texts of the differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.slices import RecordMoves
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import comparisons
from memoryhub.queries.memory.checkpoints import to_clock
from memoryhub.queries.memory.comparisons import HEAD, Comparison, KeyDifference, Point
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.memory.slice_views import SliceDifferences
from memoryhub.queries.replay.states import load_state

#: Number of keys in a batch.
KEYS = 200
KINDS = ("added", "removed", "changed", "rewritten", "retimed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """Differences from `a` to `b`, with their texts."""

    comparison: Comparison
    #: Texts of differences by field, as each noun declares its fields.
    texts: SliceDifferences
    #: Numbers of removed and added records, by slice of many records.
    moved: Mapping[str, RecordMoves]
    #: Number of differences by field, for slices of one record; None: no difference.
    fields: Mapping[str, int | None]

    @property
    def counts(self) -> dict[str, int]:
        """Number of keys in this batch, by kind of difference."""
        kinds: list[str] = [each.kind for each in self.comparison.keys.items]
        return {kind: kinds.count(kind) for kind in KINDS}

    @property
    def bytes(self) -> int:
        """Growth of the values in this batch, in bytes; negative if smaller."""
        return sum(map(count_bytes, self.comparison.keys.items))

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


def count_bytes(key: KeyDifference) -> int:
    """Return how many bytes a key's value grew; negative if the value shrank."""
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
    """Compare two checkpoints, or one and now, with texts. At most eight queries.

    `thread` comes with its subject. Raises as `comparisons.compare` does.
    """
    comparison = comparisons.compare(
        thread, a, b, values=values, seq=seq, after=after, limit=KEYS
    )
    state = load_state(thread, seq)
    return _build_view(
        thread, state, comparison, _get_contents(state, a), _get_contents(state, b)
    )


def _build_view(
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
            thread, state, *each.get_values(one, other), comparison.slices
        ).items()
    }
    return ComparisonView(
        comparison=comparison,
        texts=texts,
        moved={
            each.slice.name: each.slice.count_moves(one, other)
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


def _get_contents(state: ThreadState, point: Point) -> Contents:
    if point == HEAD:
        return state.memory.contents
    return checkpoints.require_checkpoint(state.memory, to_clock(state, point)).contents
