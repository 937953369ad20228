"""The tree of checkpoints, with the branches that restores left. Never writes.

A chain of checkpoints keeps one indentation level; only a branch that a restore left is
indented. A thousand checkpoints in a row are therefore one column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memoryhub.kernel.state.working_memory import SavedCheckpoint, WorkingMemory
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.replay.states import load_state

#: Number of checkpoints shown at once, the newest.
SHOWN = 200
#: Maximum indentation level of a branch.
DEEPEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointNode:
    """A node of the tree: a checkpoint, or the current state."""

    level: int
    #: None for the current state.
    line: CheckpointLine | None
    #: Whether the current state descends from this checkpoint.
    base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTree:
    branches: tuple[CheckpointNode, ...]
    #: Names touched since the base checkpoint; None: any name may have been touched.
    touched: int | None
    #: Numbers of requested checkpoints and of checkpoints that restores took.
    taken: int
    automatic: int
    #: Number of older checkpoints that are not shown.
    more: int


def get_tree(
    thread: Thread, *, seq: int | None = None, automatic: bool = True
) -> CheckpointTree:
    """Build the tree of checkpoints as of `seq`, with or without automatic ones.

    Two queries. The tree skips checkpoints that are folded away, deleted or too old. A
    child of a skipped checkpoint hangs on the nearest shown ancestor.
    """
    state = load_state(thread, seq)
    memory = state.memory
    listed = [each for each in memory.list_live() if automatic or not each.auto]
    shown = {each.clock: each for each in listed[-SHOWN:]}
    lines = checkpoints.build_lines(thread, state, [*shown.values()])
    return CheckpointTree(
        branches=tuple(
            _iter_nodes(memory, dict(zip(shown, lines, strict=True)), shown)
        ),
        touched=None if memory.touched is None else len(memory.touched),
        taken=memory.taken,
        automatic=len(memory.automatic),
        more=len(listed) - len(shown),
    )


def list_newest(
    thread: Thread, *, seq: int | None = None, limit: int
) -> tuple[CheckpointLine, ...]:
    """List the newest checkpoints, oldest of them first. Two queries."""
    state = load_state(thread, seq)
    return checkpoints.build_lines(thread, state, state.memory.list_live()[-limit:])


def _iter_nodes(
    memory: WorkingMemory,
    lines: Mapping[int, CheckpointLine],
    shown: Mapping[int, SavedCheckpoint],
) -> Iterator[CheckpointNode]:
    base = _find_shown(memory, shown, memory.base)
    way = _list_path(memory, shown, base)
    children: dict[int | None, list[int]] = {}
    for clock, each in sorted(shown.items()):
        children.setdefault(_find_shown(memory, shown, each.parent), []).append(clock)
    # A child on the path to the current state, else the newest child, comes last and is
    # not indented.
    for found in children.values():
        found.sort(key=lambda clock: (clock in way, clock))
    stack = [(clock, 0) for clock in reversed(children.get(None, []))]
    if base is None:
        stack.insert(0, (0, 0))
    while stack:
        clock, level = stack.pop()
        yield CheckpointNode(level=level, line=lines.get(clock), base=clock == base)
        if not clock:
            continue
        after = children.get(clock, [])
        ends = [0] if clock == base else []
        stack += [
            (each, level if place == 0 else min(level + 1, DEEPEST))
            for place, each in enumerate([*ends, *reversed(after)])
        ]


def _find_shown(
    memory: WorkingMemory, shown: Mapping[int, SavedCheckpoint], clock: int | None
) -> int | None:
    """Return the nearest shown checkpoint, from `clock` upwards; None without one."""
    while clock is not None and clock not in shown:
        clock = memory.checkpoints[clock].parent
    return clock


def _list_path(
    memory: WorkingMemory, shown: Mapping[int, SavedCheckpoint], clock: int | None
) -> set[int]:
    way: set[int] = set()
    while clock is not None:
        way.add(clock)
        clock = _find_shown(memory, shown, shown[clock].parent)
    return way
