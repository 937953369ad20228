"""The tree of checkpoints, with the names touched between any two points. Pure.

Only names touched on the path through the lowest common ancestor of two points can
differ between the points. Comparing and restoring therefore cost the number of changes,
not of keys. None, as a point, is the current state; as a set of names, any name.
"""

from __future__ import annotations

from rpds import HashTrieSet

from memoryhub.kernel.state.working_memory import (
    Contents,
    Resident,
    SavedCheckpoint,
    Touched,
    WorkingMemory,
    unite_touched,
)


def find_differing_names(
    memory: WorkingMemory, one: int | None, other: int | None
) -> Touched:
    """Find the names that may differ between two points; None: any name may."""
    here, there = _trace_to_root(memory, one), _trace_to_root(memory, other)
    common = next((clock for clock in here if clock in there), None)
    if common is None:
        return None
    names: Touched = HashTrieSet()
    for way in (here, there):
        for clock, touched in way.items():
            if clock == common:
                break
            names = unite_touched(names, touched)
    return names


def list_names_between(
    memory: WorkingMemory, one: int | None, other: int | None
) -> list[str]:
    """List the names that may differ between two points, sorted. None: now."""
    names = find_differing_names(memory, one, other)
    if names is None:
        here, there = get_contents(memory, one), get_contents(memory, other)
        return sorted({*here.keys, *there.keys})
    return sorted(names)


def get_contents(memory: WorkingMemory, point: int | None) -> Contents:
    """Return the contents of a checkpoint, or the current contents for None."""
    return memory.contents if point is None else memory.checkpoints[point].contents


def _trace_to_root(
    memory: WorkingMemory, point: int | None
) -> dict[int | None, Touched]:
    """Map each point from `point` to its root to the names touched since its parent.

    A current state without a base checkpoint has no common ancestor.
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


def add_checkpoint(memory: WorkingMemory, checkpoint: SavedCheckpoint) -> WorkingMemory:
    """Add a checkpoint of the current state, and make it the base."""
    clock, names = checkpoint.clock, memory.names
    if checkpoint.name is not None:
        names = names.insert(checkpoint.name, clock)
    automatic = (*memory.automatic, clock) if checkpoint.auto else memory.automatic
    return _put_checkpoint(memory, checkpoint)._replace(
        base=clock, touched=HashTrieSet(), names=names, automatic=automatic
    )


def move_base(memory: WorkingMemory, base: int, touched: Touched) -> WorkingMemory:
    """Make another checkpoint the base of the current state.

    The restore has kept the former base as a checkpoint, so no joint can go.
    """
    return memory._replace(base=base, touched=touched)


def remove_checkpoint(memory: WorkingMemory, clock: int) -> WorkingMemory:
    """Delete a checkpoint, or keep it as a joint where branches still part."""
    gone = memory.checkpoints[clock]
    names = memory.names
    if gone.name is not None:
        names = names.remove(gone.name)
    joint = gone._replace(
        name=None, auto=False, contents=Contents(), resident=Resident(), joint=True
    )
    memory = _put_checkpoint(memory, joint)._replace(
        names=names,
        automatic=tuple(each for each in memory.automatic if each != clock),
        joints=memory.joints + 1,
    )
    return _remove_idle_joint(memory, clock)


def _remove_idle_joint(memory: WorkingMemory, clock: int) -> WorkingMemory:
    """Remove the joint at `clock` if fewer than two branches are left there."""
    joint = memory.checkpoints.get(clock)
    if joint is None or not joint.joint:
        return memory
    children = [each for each in memory.checkpoints.values() if each.parent == clock]
    if len(children) + (memory.base == clock) > 1:
        return memory
    memory = memory._replace(
        checkpoints=memory.checkpoints.remove(clock),
        joints=memory.joints - 1,
        weight=memory.weight - compute_weight(joint),
    )
    for child in children:
        touched = unite_touched(joint.touched, child.touched)
        memory = _put_checkpoint(
            memory, child._replace(parent=joint.parent, touched=touched)
        )
    if memory.base == clock:
        touched = unite_touched(joint.touched, memory.touched)
        return memory._replace(base=joint.parent, touched=touched)
    if children or joint.parent is None:
        return memory
    return _remove_idle_joint(memory, joint.parent)


def _put_checkpoint(
    memory: WorkingMemory, checkpoint: SavedCheckpoint
) -> WorkingMemory:
    """Insert a checkpoint, or replace the checkpoint of the same clock."""
    before = memory.checkpoints.get(checkpoint.clock)
    more = compute_weight(checkpoint) - (compute_weight(before) if before else 0)
    checkpoints = memory.checkpoints.insert(checkpoint.clock, checkpoint)
    return memory._replace(checkpoints=checkpoints, weight=memory.weight + more)


def compute_weight(checkpoint: SavedCheckpoint) -> int:
    """Count the keys that a snapshot may have to write for a checkpoint."""
    touched = checkpoint.touched
    return len(checkpoint.contents.keys) if touched is None else len(touched)
