"""The tree of checkpoints, with the branches that restores left. Never writes.

A line goes on straight where one checkpoint follows another; only what left it stands
further in, so that a thousand in a row are one column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memoryhub.kernel.state.working_memory import Checkpoint, WorkingMemory
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.replay.states import state_of

#: Checkpoints that are shown at once, the newest.
SHOWN = 200
#: As far in as a branch stands at most.
DEEPEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A place in the tree: a checkpoint, or the state of now."""

    level: int
    #: None is now.
    line: CheckpointLine | None
    #: Now descends from it.
    base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    branches: tuple[Branch, ...]
    #: Names touched since the base; None: any.
    touched: int | None
    #: Checkpoints that were asked for, and those that restores took.
    taken: int
    automatic: int
    #: Older ones than are shown.
    more: int


def get_tree(thread: Thread, *, seq: int | None = None, automatic: bool = True) -> Tree:
    """The checkpoints as of `seq`; automatic ones are folded away unless asked for.

    Two queries. What is folded, deleted or too old to be shown is passed over: what
    follows it hangs on what stands before it.
    """
    state = state_of(thread, seq)
    memory = state.memory
    listed = [each for each in memory.listed() if automatic or not each.auto]
    shown = {each.clock: each for each in listed[-SHOWN:]}
    lines = checkpoints.lines(thread, state, [*shown.values()])
    return Tree(
        branches=tuple(_branches(memory, dict(zip(shown, lines, strict=True)), shown)),
        touched=None if memory.touched is None else len(memory.touched),
        taken=memory.taken,
        automatic=len(memory.automatic),
        more=len(listed) - len(shown),
    )


def newest(
    thread: Thread, *, seq: int | None = None, limit: int
) -> tuple[CheckpointLine, ...]:
    """The newest checkpoints, oldest of them first. Two queries."""
    state = state_of(thread, seq)
    return checkpoints.lines(thread, state, state.memory.listed()[-limit:])


def _branches(
    memory: WorkingMemory,
    lines: Mapping[int, CheckpointLine],
    shown: Mapping[int, Checkpoint],
) -> Iterator[Branch]:
    base = _above(memory, shown, memory.base)
    way = _way(memory, shown, base)
    children: dict[int | None, list[int]] = {}
    for clock, each in sorted(shown.items()):
        children.setdefault(_above(memory, shown, each.parent), []).append(clock)
    # What is on the way to now goes on straight and comes last; so does the newest.
    for found in children.values():
        found.sort(key=lambda clock: (clock in way, clock))
    stack = [(clock, 0) for clock in reversed(children.get(None, []))]
    if base is None:
        stack.insert(0, (0, 0))
    while stack:
        clock, level = stack.pop()
        yield Branch(level=level, line=lines.get(clock), base=clock == base)
        if not clock:
            continue
        after = children.get(clock, [])
        ends = [0] if clock == base else []
        stack += [
            (each, level if place == 0 else min(level + 1, DEEPEST))
            for place, each in enumerate([*ends, *reversed(after)])
        ]


def _above(
    memory: WorkingMemory, shown: Mapping[int, Checkpoint], clock: int | None
) -> int | None:
    """The nearest from there up that is shown."""
    while clock is not None and clock not in shown:
        clock = memory.checkpoints[clock].parent
    return clock


def _way(
    memory: WorkingMemory, shown: Mapping[int, Checkpoint], clock: int | None
) -> set[int]:
    way: set[int] = set()
    while clock is not None:
        way.add(clock)
        clock = _above(memory, shown, shown[clock].parent)
    return way
