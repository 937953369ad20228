"""A comparison as people read it, with texts of what differs."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import comparisons
from memoryhub.queries.memory.checkpoints import clock_of
from memoryhub.queries.memory.comparisons import HEAD, Comparison, KeyDifference, Point
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.memory.slice_differences import Found
from memoryhub.queries.replay.states import state_of

#: Of a batch.
KEYS = 200
KINDS = ("added", "removed", "changed", "rewritten", "retimed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """What differs from `a` to `b`, with the texts."""

    told: Comparison
    #: By field, as each noun declares them.
    texts: Found

    @property
    def counts(self) -> dict[str, int]:
        """Keys of this batch by what became of them."""
        kinds: list[str] = [each.kind for each in self.told.keys.items]
        return {kind: kinds.count(kind) for kind in KINDS}

    @property
    def bytes(self) -> int:
        """Bytes of values more than before, in this batch."""
        return sum(map(bytes_of, self.told.keys.items))

    @property
    def any(self) -> bool:
        told = self.told
        frames = told.frames_in or told.frames_out or told.pins_in or told.pins_out
        return bool(told.keys.items or frames or any(told.slices.values()))


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
    told = comparisons.compare(
        thread, a, b, values=values, seq=seq, after=after, limit=KEYS
    )
    state = state_of(thread, seq)
    one, other = _contents(state, a), _contents(state, b)
    return ComparisonView(
        told=told,
        texts={
            name: found
            for each in COMPARED
            for name, found in each.texts(
                thread, state, *each.values(one, other), told.slices
            ).items()
        },
    )


def _contents(state: ThreadState, point: Point) -> Contents:
    if point == HEAD:
        return state.memory.contents
    return checkpoints.find(state.memory, clock_of(state, point)).contents
