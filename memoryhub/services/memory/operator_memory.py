"""What operators do to keys and checkpoints: commands, under an actor of their own."""

from __future__ import annotations

from memoryhub.errors import InvalidError
from memoryhub.journal import Receipt
from memoryhub.kernel.memory.checkpoints import (
    DeleteCheckpoint,
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
) -> Receipt:
    """Give a key a value, JSON text as it was typed; without a version it is a new one.

    Emits key.set. Raises InvalidError for a name that is none, JsonRefusedError,
    ValueTooLargeError, KeysFullError; StaleError when the key is not at that version
    any more, and KeyExistsError when it was to be new.
    """
    expected = Expected(version=version, absent=version is None)
    if version is None and (names.reserved(key) or not names.valid(key)):
        raise InvalidError(loc="key")
    change = keys.typed(key, value, expiry, expected)
    command = ChangeKeys(changes=(change,), numbered=False)
    return working_memory.perform(thread, command, actor=actor)


def set_key_back(
    thread: Thread,
    key: str,
    seq: int,
    expiry: Expiry,
    *,
    version: int | None,
    actor: str,
) -> Receipt:
    """Give a key the value again that it had as of an event.

    Emits key.set. `thread` comes with its subject. Raises KeyNotFoundError if it had
    none, SeqUnknownError, ContentErasedError if that is gone; else as `set_key`.
    """
    value = get_key(thread, key, seq=seq).value
    expected = Expected(version=version, absent=version is None)
    change = keys.setting(key, value, expiry, expected)
    command = ChangeKeys(changes=(change,), numbered=False)
    # Erased meanwhile, what was read here may not be written again.
    epoch = thread.subject.epoch
    return working_memory.perform(thread, command, actor=actor, epoch=epoch)


def retime_key(
    thread: Thread, key: str, expiry: Expiry, *, version: int, actor: str
) -> Receipt:
    """Change a key's expiry alone. `thread` comes with its subject.

    Emits key.retimed; of an inherited value, key.set. Raises KeyNotFoundError,
    StaleError.
    """
    command = keys.retiming(thread, key, expiry, Expected(version=version))
    return working_memory.perform(thread, command, actor=actor)


def delete_key(thread: Thread, key: str, *, version: int, actor: str) -> Receipt:
    """Delete a key, not its value in history. Emits key.deleted. Raises StaleError."""
    change = DeleteKey(key=key, expected=Expected(version=version))
    command = ChangeKeys(changes=(change,), numbered=False)
    return working_memory.perform(thread, command, actor=actor)


def clear_keys(thread: Thread, *, actor: str) -> Receipt | None:
    """Remove all keys, once a checkpoint keeps what is there: its receipt.

    Emits checkpoint.taken, then keys.cleared, in this order so that the keys can be
    brought back; None, and neither, where there are none. `thread` comes with its
    subject. Raises CheckpointsFullError, ThreadClosedError.
    """
    if not count_keys(thread):
        return None
    kept = working_memory.perform(thread, TakeCheckpoint(), actor=actor)
    working_memory.perform(thread, ClearKeys(), actor=actor)
    return kept


def take(thread: Thread, *, name: str | None, actor: str) -> Receipt:
    """Keep what is now. Emits checkpoint.taken.

    Raises InvalidError for a name that is none, NameTakenError, CheckpointsFullError.
    """
    if name is not None:
        plain = names.valid(name) and not names.reserved(name)
        # Where a checkpoint is named, digits are its number and `head` is now.
        if not plain or name.isdecimal() or name == HEAD:
            raise InvalidError(code="name", loc="name")
    return working_memory.perform(thread, TakeCheckpoint(name=name), actor=actor)


def restore(
    thread: Thread,
    target: int,
    parts: tuple[str, ...],
    *,
    actor: str,
) -> Receipt:
    """Make parts what they were at a checkpoint, wherever the thread is by then.

    Emits what `checkpoints.restore` does. Raises CheckpointUnknownError,
    PinBudgetError.
    """
    clock = checkpoints.clock(thread, target)
    command = RestoreCheckpoint(target=clock, parts=parts)
    return working_memory.perform(thread, command, actor=actor)


def delete_checkpoint(thread: Thread, target: int, *, actor: str) -> Receipt:
    """Delete a checkpoint and nothing else. Emits checkpoint.deleted, or nothing."""
    command = DeleteCheckpoint(target=checkpoints.clock(thread, target))
    return working_memory.perform(thread, command, actor=actor)
