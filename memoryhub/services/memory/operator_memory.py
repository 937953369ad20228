"""Operators' commands for keys and checkpoints, with the operator as actor."""

from __future__ import annotations

from memoryhub.errors import InvalidError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.checkpoints import (
    DeleteCheckpoint,
    ReopenAndRestore,
    RestoreCheckpoint,
    TakeCheckpoint,
)
from memoryhub.kernel.memory.keys import ChangeKeys, ClearKeys, DeleteKey, Expiry
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.memory.comparisons import HEAD
from memoryhub.queries.memory.keys import count_keys, get_key
from memoryhub.services.memory import checkpoints, keys, working_memory


def set_key(
    thread: Thread,
    key: str,
    value: bytes,
    expiry: Expiry,
    *,
    version: int | None,
    actor: str,
) -> OrderReceipt:
    """Set a key to a JSON text as typed; without a version the key must be new.

    Emits key.set. Raises InvalidError for an invalid name, JsonRefusedError,
    ValueTooLargeError, KeysFullError; StaleError when the key is not at that version
    any more, and KeyExistsError when the key must be new.
    """
    expected = Expected(version=version, absent=version is None)
    if version is None and (names.is_reserved(key) or not names.is_valid(key)):
        raise InvalidError(loc="key")
    change = keys.parse_setting(key, value, expiry, expected)
    command = ChangeKeys(changes=(change,), numbered=False)
    return working_memory.perform_command(thread, command, actor=actor)


def revert_key(
    thread: Thread,
    key: str,
    seq: int,
    expiry: Expiry,
    *,
    version: int | None,
    actor: str,
) -> OrderReceipt:
    """Set a key to the value that it had as of an event.

    Emits key.set. `thread` comes with its subject. Raises KeyNotFoundError if the key
    had no value, SeqUnknownError, ContentErasedError if the value is erased; else as
    `set_key`.
    """
    value = get_key(thread, key, seq=seq).value
    expected = Expected(version=version, absent=version is None)
    change = keys.build_setting(key, value, expiry, expected)
    command = ChangeKeys(changes=(change,), numbered=False)
    # The epoch stops a write of content that was erased since the read.
    epoch = thread.subject.epoch
    return working_memory.perform_command(thread, command, actor=actor, epoch=epoch)


def retime_key(
    thread: Thread, key: str, expiry: Expiry, *, version: int, actor: str
) -> OrderReceipt:
    """Change a key's expiry alone. `thread` comes with its subject.

    Emits key.retimed; of an inherited value, key.set. Raises KeyNotFoundError,
    StaleError.
    """
    command = keys.build_retiming(thread, key, expiry, Expected(version=version))
    return working_memory.perform_command(thread, command, actor=actor)


def delete_key(thread: Thread, key: str, *, version: int, actor: str) -> OrderReceipt:
    """Delete a key, not its value in history. Emits key.deleted. Raises StaleError."""
    change = DeleteKey(key=key, expected=Expected(version=version))
    command = ChangeKeys(changes=(change,), numbered=False)
    return working_memory.perform_command(thread, command, actor=actor)


def clear_keys(thread: Thread, *, actor: str) -> OrderReceipt | None:
    """Remove all keys after taking a checkpoint; returns the checkpoint's receipt.

    Emits checkpoint.taken, then keys.cleared, in this order so that the keys can be
    restored; None, and neither event, where there are no keys. `thread` comes with its
    subject. Raises CheckpointsFullError, ThreadClosedError.
    """
    if not count_keys(thread):
        return None
    kept = working_memory.perform_command(thread, TakeCheckpoint(), actor=actor)
    working_memory.perform_command(thread, ClearKeys(), actor=actor)
    return kept


def take_checkpoint(thread: Thread, *, name: str | None, actor: str) -> OrderReceipt:
    """Take a checkpoint. Emits checkpoint.taken.

    Raises InvalidError for an invalid name, NameTakenError, CheckpointsFullError.
    """
    if name is not None:
        plain = names.is_valid(name) and not names.is_reserved(name)
        # In checkpoint references digits are a number and `head` is the present state.
        if not plain or name.isdecimal() or name == HEAD:
            raise InvalidError(code="name", loc="name")
    return working_memory.perform_command(
        thread, TakeCheckpoint(name=name), actor=actor
    )


def restore_checkpoint(
    thread: Thread,
    target: int,
    parts: tuple[str, ...],
    *,
    actor: str,
    reopens: bool = False,
) -> OrderReceipt:
    """Restore parts of working memory from a checkpoint, whatever the head is by then.

    Emits what `checkpoints.restore_checkpoint` does; with `reopens` a closed thread is
    reopened in the same commit, unless nothing differs. Raises CheckpointUnknownError,
    PinBudgetError, ThreadClosedError.
    """
    clock = checkpoints.to_clock(thread, target)
    kind = ReopenAndRestore if reopens else RestoreCheckpoint
    command = kind(target=clock, parts=parts)
    return working_memory.perform_command(thread, command, actor=actor)


def delete_checkpoint(thread: Thread, target: int, *, actor: str) -> OrderReceipt:
    """Delete a checkpoint and nothing else. Emits checkpoint.deleted, or nothing."""
    command = DeleteCheckpoint(target=checkpoints.to_clock(thread, target))
    return working_memory.perform_command(thread, command, actor=actor)
