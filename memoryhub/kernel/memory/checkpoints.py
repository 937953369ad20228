"""Checkpoints: taken, restored, deleted. Pure. Verbs decide, participles fold."""

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
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.memory.nouns import SLICES, counts, moved
from memoryhub.kernel.parts import Part
from memoryhub.kernel.slices import Moved, Slice
from memoryhub.kernel.state.paging import listed
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import (
    AUTOMATIC_KEPT,
    MAX_CHECKPOINTS,
    Checkpoint,
    KeyEntry,
    Touched,
    WorkingMemory,
    united,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCheckpoint(MemoryCommand):
    name: str | None = None
    #: JSON text, UTF-8.
    description: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheckpoint(MemoryCommand):
    #: Clock or name.
    target: int | str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCheckpoint(MemoryCommand):
    target: int | str


def take_checkpoint(
    decision: Decision, command: TakeCheckpoint, pages: PageTable
) -> None:
    """Keep what is now, by reference. Emits checkpoint.taken.

    Raises NameTakenError, CheckpointsFullError.
    """
    memory = decision.state.memory
    if command.name is not None and command.name in memory.names:
        raise NameTakenError
    if memory.taken >= MAX_CHECKPOINTS:
        raise CheckpointsFullError(max_checkpoints=MAX_CHECKPOINTS)
    payload = b"{}"
    if command.description is not None:
        payload = b'{"description":' + command.description + b"}"
    _take(decision, name=command.name, payload=payload)


def _take(
    decision: Decision, *, name: str | None = None, auto: bool = False, payload: bytes
) -> None:
    memory = decision.state.memory
    decision.emit(
        events.CheckpointTaken(
            name=name,
            auto=auto,
            parent=memory.base,
            touched=None if memory.touched is None else len(memory.touched),
            **counts(memory.contents),
        ),
        payload,
    )


def find(memory: WorkingMemory, target: int | str) -> Checkpoint:
    """The checkpoint of that clock or name. Raises CheckpointUnknownError."""
    clock = memory.names.get(target) if isinstance(target, str) else target
    found = None if clock is None else memory.live(clock)
    if found is None:
        raise CheckpointUnknownError
    return found


def restore_checkpoint(
    decision: Decision, command: RestoreCheckpoint, pages: PageTable
) -> None:
    """Make parts of working memory what they were, in one event that can be undone.

    Emits checkpoint.taken for what is now, unless a checkpoint holds just that, and
    checkpoint.restored; nothing if nothing differs. With the working set also what must
    leave it by the settings of now. Raises CheckpointUnknownError, PinBudgetError.
    """
    state = decision.state
    target = find(state.memory, command.target)
    change = changes(state, target, command.parts, at=decision.at)
    back = None
    if "frames" in command.parts:
        back = resident.returning(state, target.resident, pages)
    if not change.any and not (back and back.any):
        return
    before = _before(decision)
    decision.emit(
        events.CheckpointRestored(
            target=target.clock,
            parts=sorted(set(command.parts)),
            before=before,
            judged_at=decision.at,
            set=change.set,
            removed=change.removed,
            expired=change.expired,
            **moved(change.slices),
            pruned=list(decision.state.memory.automatic[:-AUTOMATIC_KEPT]),
            left_out=back.left_out if back else [],
            refreshed=back.refreshed if back else [],
        )
    )
    if back:
        resident.fit(decision)


def _before(decision: Decision) -> int:
    """The checkpoint of what is now, which is taken unless one holds just that."""
    before = _kept(decision.state)
    if before is None:
        _take(decision, auto=True, payload=b"{}")
        before = decision.state.memory.base
        assert before is not None
    return before


def delete_checkpoint(
    decision: Decision, command: DeleteCheckpoint, pages: PageTable
) -> None:
    """Delete a checkpoint and nothing else. Emits checkpoint.deleted, or nothing."""
    memory = decision.state.memory
    target = command.target
    clock = memory.names.get(target) if isinstance(target, str) else target
    if clock is not None and memory.live(clock):
        decision.emit(events.CheckpointDeleted(target=clock))


class Changes(NamedTuple):
    """What restoring would change: names, counted, and records by slice."""

    set: int = 0
    removed: int = 0
    expired: int = 0
    slices: Mapping[str, Moved] = MappingProxyType({})

    @property
    def any(self) -> bool:
        return bool(self.set or self.removed or any(map(any, self.slices.values())))


def changes(
    state: ThreadState,
    target: Checkpoint,
    parts: Iterable[str],
    *,
    at: datetime,
) -> Changes:
    """What restoring these parts would change, expiry judged as of `at`."""
    now, then = state.memory.contents, target.contents
    found = Changes()
    if "keys" in parts:
        found = _key_changes(state.memory, target, at=at)
    slices = {part.name: part.moved(now, then) for part in _slices(parts)}
    return found._replace(slices=slices)


def _slices(parts: Iterable[str]) -> Iterator[Slice[Any]]:
    return (SLICES[name] for name in parts if name in SLICES)


def _key_changes(memory: WorkingMemory, target: Checkpoint, *, at: datetime) -> Changes:
    here, there = memory.contents, target.contents
    new = removed = 0
    for name in checkpoint_tree.names_between(memory, None, target.clock):
        old, kept = here.find(name, now=at), there.find(name, now=at)
        if kept is None:
            removed += old is not None
        elif kept != old:
            new += 1
    return Changes(set=new, removed=removed, expired=expired(target, at=at))


def expired(target: Checkpoint, *, at: datetime) -> int:
    """How many keys of a checkpoint stay away, swept or not.

    Of all its keys: a sweep touches a name, and the instant that passes does not.
    """
    return sum(not each.visible(at) for _, each in listed(target.contents.keys))


def _kept(state: ThreadState) -> int | None:
    """The checkpoint that holds just what is now, if the state descends from one."""
    memory = state.memory
    base = None if memory.base is None else memory.live(memory.base)
    if base is None or memory.touched is None or len(memory.touched):
        return None
    same = (base.contents.slices, base.resident) == (
        memory.contents.slices,
        resident.of(state.paging),
    )
    return base.clock if same else None


def taken(state: ThreadState, event: events.CheckpointTaken) -> ThreadState:
    memory = state.memory
    checkpoint = Checkpoint(
        clock=state.clock + 1,
        name=event.name,
        auto=event.auto,
        parent=memory.base,
        touched=memory.touched,
        contents=memory.contents,
        resident=resident.of(state.paging),
    )
    return state._replace(memory=checkpoint_tree.added(memory, checkpoint))


def restored(state: ThreadState, event: events.CheckpointRestored) -> ThreadState:
    memory = state.memory
    target = memory.checkpoints[event.target]
    if "keys" in event.parts:
        memory = _keys_restored(memory, target, at=event.judged_at)
    for part in _slices(event.parts):
        contents = part.put(memory.contents, part.get(target.contents))
        memory = memory._replace(contents=contents)
    for clock in event.pruned:
        memory = checkpoint_tree.without(memory, clock)
    if "frames" in event.parts:
        paging = resident.returned(state, target.resident, event)
        state = state._replace(paging=paging)
    return state._replace(memory=memory)


def _keys_restored(
    memory: WorkingMemory, target: Checkpoint, *, at: datetime
) -> WorkingMemory:
    """With the target's keys, but for those whose instant has passed meanwhile."""
    keys, size = target.contents.keys, target.contents.key_bytes
    gone: Touched = HashTrieSet()
    for name, entry in _passed(memory, target, at=at):
        keys, size = keys.remove(name), size - entry.bytes
        gone = united(gone, [name])
    contents = memory.contents._replace(keys=keys, key_bytes=size)
    memory = memory._replace(contents=contents)
    return checkpoint_tree.moved(memory, target.clock, gone)


def _passed(
    memory: WorkingMemory, target: Checkpoint, *, at: datetime
) -> Iterable[tuple[str, KeyEntry]]:
    keys: HashTrieMap[str, KeyEntry] = target.contents.keys
    for name in checkpoint_tree.names_between(memory, None, target.clock):
        entry = keys.get(name)
        if entry is not None and not entry.visible(at):
            yield name, entry


def deleted(state: ThreadState, event: events.CheckpointDeleted) -> ThreadState:
    memory = checkpoint_tree.without(state.memory, event.target)
    return state._replace(memory=memory)


PART = Part(
    commands={
        TakeCheckpoint: take_checkpoint,
        RestoreCheckpoint: restore_checkpoint,
        DeleteCheckpoint: delete_checkpoint,
    },
    events={
        events.CheckpointTaken: taken,
        events.CheckpointRestored: restored,
        events.CheckpointDeleted: deleted,
    },
)
