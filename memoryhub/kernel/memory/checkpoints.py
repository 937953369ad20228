"""Checkpoints: deciding and folding their taking, restoring and deletion. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from rpds import HashTrieMap, HashTrieSet

from memoryhub.errors import (
    CheckpointsFullError,
    CheckpointUnknownError,
    NameTakenError,
)
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory import checkpoint_events as events
from memoryhub.kernel.memory import checkpoint_tree, resident
from memoryhub.kernel.memory.keys import ChangeKeys, decide_change_keys
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.memory.nouns import SLICES, build_moved_fields, count_contents
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.slices import RecordMoves, Slice
from memoryhub.kernel.state.events import ThreadReopened
from memoryhub.kernel.state.paging import list_items
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import (
    AUTOMATIC_KEPT,
    MAX_CHECKPOINTS,
    KeyEntry,
    SavedCheckpoint,
    Touched,
    WorkingMemory,
    unite_touched,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCheckpoint(MemoryCommand):
    name: str | None = None
    #: JSON text, UTF-8.
    description: bytes | None = None
    #: To make first: all of it is done, or nothing.
    changes: ChangeKeys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheckpoint(MemoryCommand):
    #: Clock or name.
    target: int | str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenAndRestore(RestoreCheckpoint):
    """Restore a checkpoint, and first reopen the thread if it is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCheckpoint(MemoryCommand):
    target: int | str


def decide_take_checkpoint(
    decision: Decision, command: TakeCheckpoint, pages: PageTable
) -> None:
    """Take a checkpoint of the current state, by reference. Emits checkpoint.taken.

    Raises NameTakenError, CheckpointsFullError, and what the changes raise.
    """
    if command.changes:
        decide_change_keys(decision, command.changes, pages)
    memory = decision.state.memory
    if command.name is not None and command.name in memory.names:
        raise NameTakenError
    if memory.taken >= MAX_CHECKPOINTS:
        raise CheckpointsFullError(max_checkpoints=MAX_CHECKPOINTS)
    payload = b"{}"
    if command.description is not None:
        payload = b'{"description":' + command.description + b"}"
    _emit_taken(decision, name=command.name, payload=payload)


def _emit_taken(
    decision: Decision, *, name: str | None = None, auto: bool = False, payload: bytes
) -> None:
    memory = decision.state.memory
    decision.emit(
        events.CheckpointTaken(
            name=name,
            auto=auto,
            parent=memory.base,
            touched=None if memory.touched is None else len(memory.touched),
            **count_contents(memory.contents),
        ),
        payload,
    )


def require_checkpoint(memory: WorkingMemory, target: int | str) -> SavedCheckpoint:
    """Return the checkpoint with a clock or name. Raises CheckpointUnknownError."""
    clock = memory.names.get(target) if isinstance(target, str) else target
    found = None if clock is None else memory.find_live(clock)
    if found is None:
        raise CheckpointUnknownError
    return found


def decide_restore_checkpoint(
    decision: Decision, command: RestoreCheckpoint, pages: PageTable
) -> None:
    """Restore parts of working memory in one event that can be undone.

    Emits checkpoint.taken for the current state, unless a checkpoint holds the same
    state, and checkpoint.restored; nothing if nothing differs. With the working set the
    evictions that the current settings require, too. A closed thread, which takes only
    `ReopenAndRestore`, emits thread.reopened first. Raises CheckpointUnknownError,
    PinBudgetError.
    """
    state = decision.state
    target = require_checkpoint(state.memory, command.target)
    change = compute_changes(state, target, command.parts, at=decision.at)
    back = None
    if "frames" in command.parts:
        back = resident.plan_return(state, target.resident, pages)
    if not change.any and not (back and back.any):
        return
    if state.status == "closed":
        decision.emit(ThreadReopened())
    before = _ensure_checkpoint(decision)
    decision.emit(
        events.CheckpointRestored(
            target=target.clock,
            parts=sorted(set(command.parts)),
            before=before,
            judged_at=decision.at,
            set=change.set,
            removed=change.removed,
            expired=change.expired,
            **build_moved_fields(change.slices),
            pruned=list(decision.state.memory.automatic[:-AUTOMATIC_KEPT]),
            left_out=back.left_out if back else [],
            refreshed=back.refreshed if back else [],
        )
    )
    if back:
        resident.fit(decision)


def _ensure_checkpoint(decision: Decision) -> int:
    """Return the clock of a checkpoint of the current state; take one if need be."""
    before = _find_same_checkpoint(decision.state)
    if before is None:
        _emit_taken(decision, auto=True, payload=b"{}")
        before = decision.state.memory.base
        assert before is not None
    return before


def decide_delete_checkpoint(
    decision: Decision, command: DeleteCheckpoint, pages: PageTable
) -> None:
    """Delete a checkpoint and nothing else. Emits checkpoint.deleted, or nothing."""
    memory = decision.state.memory
    target = command.target
    clock = memory.names.get(target) if isinstance(target, str) else target
    if clock is not None and memory.find_live(clock):
        decision.emit(events.CheckpointDeleted(target=clock))


class RestoreChanges(NamedTuple):
    """Changes that a restore would make: numbers of keys, and records by slice."""

    set: int = 0
    removed: int = 0
    expired: int = 0
    slices: Mapping[str, RecordMoves] = MappingProxyType({})

    @property
    def any(self) -> bool:
        """Whether the restore would change anything."""
        return bool(self.set or self.removed or any(map(any, self.slices.values())))


def compute_changes(
    state: ThreadState,
    target: SavedCheckpoint,
    parts: Iterable[str],
    *,
    at: datetime,
) -> RestoreChanges:
    """Compute the changes of restoring `parts`, expiry judged as of `at`."""
    now, then = state.memory.contents, target.contents
    found = RestoreChanges()
    if "keys" in parts:
        found = _compute_key_changes(state.memory, target, at=at)
    slices = {part.name: part.count_moves(now, then) for part in _iter_slices(parts)}
    return found._replace(slices=slices)


def _iter_slices(parts: Iterable[str]) -> Iterator[Slice[Any]]:
    return (SLICES[name] for name in parts if name in SLICES)


def _compute_key_changes(
    memory: WorkingMemory, target: SavedCheckpoint, *, at: datetime
) -> RestoreChanges:
    here, there = memory.contents, target.contents
    new = removed = 0
    for name in checkpoint_tree.list_names_between(memory, None, target.clock):
        old, kept = here.find_key(name, now=at), there.find_key(name, now=at)
        if kept is None:
            removed += old is not None
        elif kept != old:
            new += 1
    return RestoreChanges(
        set=new, removed=removed, expired=count_expired(target, at=at)
    )


def count_expired(target: SavedCheckpoint, *, at: datetime) -> int:
    """Count the expired keys of a checkpoint, which a restore leaves out.

    Looks at all keys: a sweep touches a name, but the passing of an instant does not.
    """
    return sum(not each.is_visible(at) for _, each in list_items(target.contents.keys))


def _find_same_checkpoint(state: ThreadState) -> int | None:
    """Find the clock of the base checkpoint if it equals the current state."""
    memory = state.memory
    base = None if memory.base is None else memory.find_live(memory.base)
    if base is None or memory.touched is None or len(memory.touched):
        return None
    same = (base.contents.slices, base.resident) == (
        memory.contents.slices,
        resident.build_resident(state.paging),
    )
    return base.clock if same else None


def apply_checkpoint_taken(
    state: ThreadState, event: events.CheckpointTaken
) -> ThreadState:
    memory = state.memory
    checkpoint = SavedCheckpoint(
        clock=state.clock + 1,
        name=event.name,
        auto=event.auto,
        parent=memory.base,
        touched=memory.touched,
        contents=memory.contents,
        resident=resident.build_resident(state.paging),
    )
    return state._replace(memory=checkpoint_tree.add_checkpoint(memory, checkpoint))


def apply_checkpoint_restored(
    state: ThreadState, event: events.CheckpointRestored
) -> ThreadState:
    memory = state.memory
    target = memory.checkpoints[event.target]
    if "keys" in event.parts:
        memory = _restore_keys(memory, target, at=event.judged_at)
    for part in _iter_slices(event.parts):
        contents = part.put(memory.contents, part.get(target.contents))
        memory = memory._replace(contents=contents)
    for clock in event.pruned:
        memory = checkpoint_tree.remove_checkpoint(memory, clock)
    if "frames" in event.parts:
        paging = resident.restore_paging(state, target.resident, event)
        state = state._replace(paging=paging)
    return state._replace(memory=memory)


def _restore_keys(
    memory: WorkingMemory, target: SavedCheckpoint, *, at: datetime
) -> WorkingMemory:
    """Restore the target's keys, except keys that have expired meanwhile."""
    keys, size = target.contents.keys, target.contents.key_bytes
    gone: Touched = HashTrieSet()
    for name, entry in _iter_expired(memory, target, at=at):
        keys, size = keys.remove(name), size - entry.bytes
        gone = unite_touched(gone, [name])
    contents = memory.contents._replace(keys=keys, key_bytes=size)
    memory = memory._replace(contents=contents)
    return checkpoint_tree.move_base(memory, target.clock, gone)


def _iter_expired(
    memory: WorkingMemory, target: SavedCheckpoint, *, at: datetime
) -> Iterable[tuple[str, KeyEntry]]:
    keys: HashTrieMap[str, KeyEntry] = target.contents.keys
    for name in checkpoint_tree.list_names_between(memory, None, target.clock):
        entry = keys.get(name)
        if entry is not None and not entry.is_visible(at):
            yield name, entry


def apply_checkpoint_deleted(
    state: ThreadState, event: events.CheckpointDeleted
) -> ThreadState:
    memory = checkpoint_tree.remove_checkpoint(state.memory, event.target)
    return state._replace(memory=memory)


PART = KernelPart(
    commands={
        TakeCheckpoint: decide_take_checkpoint,
        RestoreCheckpoint: decide_restore_checkpoint,
        DeleteCheckpoint: decide_delete_checkpoint,
    },
    upkeep={ReopenAndRestore: decide_restore_checkpoint},
    events={
        events.CheckpointTaken: apply_checkpoint_taken,
        events.CheckpointRestored: apply_checkpoint_restored,
        events.CheckpointDeleted: apply_checkpoint_deleted,
    },
)
