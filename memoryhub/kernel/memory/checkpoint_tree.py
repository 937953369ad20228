"""The tree of checkpoints: what was touched between any two points. Pure.

The names that can differ between two points are those touched on the path through their
lowest common ancestor, so that comparing and restoring cost what changed, not what
exists. None, as a point, is the state of now; as a set of names, any name.
"""

from __future__ import annotations

from rpds import HashTrieSet

from memoryhub.kernel.state.working_memory import (
    Checkpoint,
    Contents,
    Resident,
    Touched,
    WorkingMemory,
    united,
)


def differing(memory: WorkingMemory, one: int | None, other: int | None) -> Touched:
    """Names that may differ between two points; None: any may."""
    here, there = _way_up(memory, one), _way_up(memory, other)
    common = next((clock for clock in here if clock in there), None)
    if common is None:
        return None
    names: Touched = HashTrieSet()
    for way in (here, there):
        for clock, touched in way.items():
            if clock == common:
                break
            names = united(names, touched)
    return names


def names_between(
    memory: WorkingMemory, one: int | None, other: int | None
) -> list[str]:
    """Names that may differ between two points, sorted. None is the state of now."""
    names = differing(memory, one, other)
    if names is None:
        here, there = contents_at(memory, one), contents_at(memory, other)
        return sorted({*here.keys, *there.keys})
    return sorted(names)


def contents_at(memory: WorkingMemory, point: int | None) -> Contents:
    """The contents of a checkpoint, or of now."""
    return memory.contents if point is None else memory.checkpoints[point].contents


def _way_up(memory: WorkingMemory, point: int | None) -> dict[int | None, Touched]:
    """From the point to its root: each with what was touched since the one above it.

    Where the state of now stands on no checkpoint it has no common ancestor.
    """
    way: dict[int | None, Touched] = {}
    clock = point
    if point is None:
        way[None] = memory.touched
        clock = memory.base
    while clock is not None:
        found = memory.checkpoints[clock]
        way[clock] = found.touched
        clock = found.parent
    return way


def added(memory: WorkingMemory, checkpoint: Checkpoint) -> WorkingMemory:
    """With a checkpoint of now, which now descends from."""
    clock, names = checkpoint.clock, memory.names
    if checkpoint.name is not None:
        names = names.insert(checkpoint.name, clock)
    automatic = (*memory.automatic, clock) if checkpoint.auto else memory.automatic
    return _put(memory, checkpoint)._replace(
        base=clock, touched=HashTrieSet(), names=names, automatic=automatic
    )


def moved(memory: WorkingMemory, base: int, touched: Touched) -> WorkingMemory:
    """With now descending from another checkpoint.

    The one it leaves was kept by the restore itself: it is no joint that could go.
    """
    return memory._replace(base=base, touched=touched)


def without(memory: WorkingMemory, clock: int) -> WorkingMemory:
    """With a checkpoint deleted: gone, or a joint where branches still part at it."""
    gone = memory.checkpoints[clock]
    names = memory.names
    if gone.name is not None:
        names = names.remove(gone.name)
    joint = gone._replace(
        name=None, auto=False, contents=Contents(), resident=Resident(), joint=True
    )
    memory = _put(memory, joint)._replace(
        names=names,
        automatic=tuple(each for each in memory.automatic if each != clock),
        joints=memory.joints + 1,
    )
    return _settled(memory, clock)


def _settled(memory: WorkingMemory, clock: int) -> WorkingMemory:
    """Without the joint at `clock` if fewer than two branches are left of it."""
    joint = memory.checkpoints.get(clock)
    if joint is None or not joint.joint:
        return memory
    children = [each for each in memory.checkpoints.values() if each.parent == clock]
    if len(children) + (memory.base == clock) > 1:
        return memory
    memory = memory._replace(
        checkpoints=memory.checkpoints.remove(clock),
        joints=memory.joints - 1,
        weight=memory.weight - weight(joint),
    )
    for child in children:
        touched = united(joint.touched, child.touched)
        memory = _put(memory, child._replace(parent=joint.parent, touched=touched))
    if memory.base == clock:
        touched = united(joint.touched, memory.touched)
        return memory._replace(base=joint.parent, touched=touched)
    if children or joint.parent is None:
        return memory
    return _settled(memory, joint.parent)


def _put(memory: WorkingMemory, checkpoint: Checkpoint) -> WorkingMemory:
    """With the checkpoint in the place of the one of its clock."""
    before = memory.checkpoints.get(checkpoint.clock)
    more = weight(checkpoint) - (weight(before) if before else 0)
    checkpoints = memory.checkpoints.insert(checkpoint.clock, checkpoint)
    return memory._replace(checkpoints=checkpoints, weight=memory.weight + more)


def weight(checkpoint: Checkpoint) -> int:
    """Keys that a snapshot may have to write for it."""
    touched = checkpoint.touched
    return len(checkpoint.contents.keys) if touched is None else len(touched)
