"""Undo: what one edit wrote becomes what it was before, if it is still there."""

from __future__ import annotations

from memoryhub.errors import ContentErasedError, InvalidError, StaleError
from memoryhub.journal import Receipt
from memoryhub.kernel.memory.keys import ChangeKeys, DeleteKey, Expiry, RetimeKey
from memoryhub.kernel.memory.memory_commands import Expected, MemoryCommand
from memoryhub.kernel.memory.tasks import (
    TASK,
    TASK_FIELDS,
    ClearTask,
    SetTask,
    Task,
    TaskField,
    UpdateTask,
)
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import KeyEntry
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import tasks
from memoryhub.queries.replay import payloads
from memoryhub.queries.replay.states import now_of, state_of
from memoryhub.queries.threads import edits
from memoryhub.services.memory import keys, working_memory


def undo(thread: Thread, seq: int, *, actor: str) -> Receipt:
    """Take back what the event wrote to a key or to the task, and nothing else.

    Emits what writes it as it was. `thread` comes with its subject. Raises StaleError
    if anything wrote it since, ContentErasedError if what was there is gone,
    InvalidError of `seq` for an event that is no edit, of `expires_at` for what would
    have expired by now.
    """
    edit = edits.find_edit(thread, seq)
    if edit is None:
        raise InvalidError(loc="seq")
    if not edit.standing:
        raise StaleError(head_seq=thread.head_seq)
    before, after = state_of(thread, seq - 1), state_of(thread, seq)
    if edit.key is None:
        command = _task_as_before(thread, before, after)
    else:
        command = _key_as_before(thread, edit.key, before, after)
    # Erased meanwhile, what was read here may not be written again.
    epoch = thread.subject.epoch
    return working_memory.perform(thread, command, actor=actor, epoch=epoch)


def _key_as_before(
    thread: Thread, key: str, before: ThreadState, after: ThreadState
) -> MemoryCommand:
    left = after.memory.contents.keys.get(key)
    expected = _expected(after, left and left.version)
    # By the instant of the edit: what had expired by then was not there.
    old = before.memory.contents.find(key, now=now_of(after, after.seq))
    if old is None:
        return _changing(DeleteKey(key=key, expected=expected))
    expiry = Expiry(given=True, at=old.expires_at)
    if left is not None and left.value == old.value:
        return RetimeKey(key=key, expiry=expiry, expected=expected)
    value = _value(thread, before, old)
    return _changing(keys.setting(key, value, expiry, expected))


def _changing(change: keys.Change) -> ChangeKeys:
    return ChangeKeys(changes=(change,), numbered=False)


def _value(thread: Thread, state: ThreadState, entry: KeyEntry) -> object:
    content = payloads.opened(thread, state, [entry.value])[entry.value].content
    if content is None:
        raise ContentErasedError
    return content["value"]


def _task_as_before(
    thread: Thread, before: ThreadState, after: ThreadState
) -> MemoryCommand:
    old, left = TASK.value(before), TASK.value(after)
    expected = _expected(after, left and left.version)
    if old is None:
        return ClearTask(expected=expected)
    if left is None:
        texts = tasks.get_texts(thread, before, old)
        # A start that is not said would be now.
        fields: dict[TaskField, bytes] = {"started_at": b"null", **texts}
        return SetTask(status=old.status, fields=fields, expected=expected)
    moved = [name for name in TASK_FIELDS if _clock(old, name) != _clock(left, name)]
    texts = tasks.get_texts(thread, before, old, moved)
    return UpdateTask(
        status=old.status if old.status != left.status else None,
        fields={name: texts[name] for name in moved if name in texts},
        cleared=tuple(name for name in moved if name not in texts),
        expected=expected,
    )


def _clock(task: Task, field: TaskField) -> int | None:
    clock: int | None = getattr(task, field)
    return clock


def _expected(state: ThreadState, clock: int | None) -> Expected:
    """Return what must stand there still; without a clock nothing may."""
    if clock is None:
        return Expected(absent=True)
    return Expected(version=state.seq_of(clock))
