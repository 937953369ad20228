"""Undo: an edit's key or task returns to its earlier state, if unchanged since."""

from __future__ import annotations

from memoryhub.errors import ContentErasedError, InvalidError, StaleError
from memoryhub.journal import OrderReceipt, texts
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
from memoryhub.queries.replay.states import compute_instant, load_state
from memoryhub.queries.threads import edits
from memoryhub.services.memory import keys, working_memory


def undo_edit(thread: Thread, seq: int, *, actor: str) -> OrderReceipt:
    """Undo what the event wrote to a key or to the task, and nothing else.

    Emits events that write the earlier state. `thread` comes with its subject. Raises
    StaleError if a later event wrote the key or task, ContentErasedError if the earlier
    content is erased, InvalidError of `seq` for an event that is no edit, of
    `expires_at` for a value that would have expired by now.
    """
    edit = edits.find_edit(thread, seq)
    if edit is None:
        raise InvalidError(loc="seq")
    if not edit.standing:
        raise StaleError(head_seq=thread.head_seq)
    before, after = load_state(thread, seq - 1), load_state(thread, seq)
    if edit.key is None:
        command = _build_task_undo(thread, before, after)
    else:
        command = _build_key_undo(thread, edit.key, before, after)
    # The epoch stops a write of content that was erased since the read.
    epoch = thread.subject.epoch
    return working_memory.perform_command(thread, command, actor=actor, epoch=epoch)


def _build_key_undo(
    thread: Thread, key: str, before: ThreadState, after: ThreadState
) -> MemoryCommand:
    """Build the command that gives a key its earlier state."""
    left = after.memory.contents.keys.get(key)
    expected = _build_expected(after, left and left.version)
    # Judge expiry at the instant of the edit: a value expired by then was absent.
    old = before.memory.contents.find_key(key, now=compute_instant(after, after.seq))
    if old is None:
        return _build_change(DeleteKey(key=key, expected=expected))
    expiry = Expiry(given=True, at=old.expires_at)
    if left is not None and left.value == old.value:
        return RetimeKey(key=key, expiry=expiry, expected=expected)
    value = _open_value(thread, before, old)
    return _build_change(keys.build_setting(key, value, expiry, expected))


def _build_change(change: keys.Change) -> ChangeKeys:
    """Build the command of one change."""
    return ChangeKeys(changes=(change,), numbered=False)


def _open_value(thread: Thread, state: ThreadState, entry: KeyEntry) -> object:
    """Open the value of a key. Raises ContentErasedError."""
    content = texts.open_events(thread, state, [entry.value])[entry.value].content
    if content is None:
        raise ContentErasedError
    return content["value"]


def _build_task_undo(
    thread: Thread, before: ThreadState, after: ThreadState
) -> MemoryCommand:
    """Build the command that gives the task its earlier state."""
    old, left = TASK.get_current(before), TASK.get_current(after)
    expected = _build_expected(after, left and left.version)
    if old is None:
        return ClearTask(expected=expected)
    if left is None:
        contents = tasks.get_texts(thread, before, old)
        # Without a start the command would set the present time.
        fields: dict[TaskField, bytes] = {"started_at": b"null", **contents}
        return SetTask(status=old.status, fields=fields, expected=expected)
    moved = [
        name
        for name in TASK_FIELDS
        if _get_field_clock(old, name) != _get_field_clock(left, name)
    ]
    contents = tasks.get_texts(thread, before, old, moved)
    return UpdateTask(
        status=old.status if old.status != left.status else None,
        fields={name: contents[name] for name in moved if name in contents},
        cleared=tuple(name for name in moved if name not in contents),
        expected=expected,
    )


def _get_field_clock(task: Task, field: TaskField) -> int | None:
    """Get the clock of a task's field."""
    clock: int | None = getattr(task, field)
    return clock


def _build_expected(state: ThreadState, clock: int | None) -> Expected:
    """Build the condition that the entry is unchanged; absent without a clock."""
    if clock is None:
        return Expected(absent=True)
    return Expected(version=state.to_seq(clock))
