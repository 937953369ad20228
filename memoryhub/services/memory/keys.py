"""Keys of working memory: set, retime, delete and clear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from memoryhub.errors import ValueTooLargeError
from memoryhub.journal import KeyedRequest, OrderReceipt
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.keys import (
    ChangeKeys,
    ClearKeys,
    DeleteKey,
    Expiry,
    RetimeKey,
    SetKey,
)
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory

Change = SetKey | DeleteKey
Changes = tuple[Change, ...]
MAX_VALUE_BYTES: Final = 256 * 1024
#: No condition.
ANY: Final = Expected()


async def change_keys(
    *,
    agent: Agent,
    thread: str,
    changes: Changes,
    checkpoint: TakeCheckpoint | None = None,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
    numbered: bool = False,
) -> OrderReceipt:
    """Set and delete keys, all or none; a set with an unknown name creates the thread.

    Emits key.set and key.deleted, then checkpoint.taken if a checkpoint is wanted.
    Raises StaleError, KeyExistsError, KeysFullError, with the change's index if
    `numbered`, and NameTakenError, CheckpointsFullError for the checkpoint. `if_match`
    is the head that the caller saw.
    """
    values = [each.value for each in changes if isinstance(each, SetKey)]
    command = ChangeKeys(
        changes=changes, default_ttl=agent.default_ttl, numbered=numbered
    )
    remark = [checkpoint.description] if checkpoint and checkpoint.description else []
    return await working_memory.submit_command(
        agent=agent,
        thread=thread,
        command=replace(checkpoint, changes=command) if checkpoint else command,
        texts=[*values, *remark],
        if_match=if_match,
        request=request,
        born=bool(values or checkpoint),
    )


async def retime_key(
    *, agent: Agent, thread: str, key: str, expiry: Expiry, expected: Expected
) -> OrderReceipt:
    """Change a key's expiry alone.

    Emits key.retimed; for a value inherited by a fork, key.set. Raises
    KeyNotFoundError, StaleError, SubjectRestrictedError.
    """
    # Check restriction first: the next step may open a value, and must not reveal
    # whether the key exists.
    row = await read(threads.get_unrestricted, agent.project, thread, bound=agent.bound)
    command = await read(build_retiming, row, key, expiry, expected)
    return await working_memory.submit_command(
        agent=agent, thread=thread, command=command
    )


async def clear_keys(
    *,
    agent: Agent,
    thread: str,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Remove all keys. Emits keys.cleared, or nothing when there are none."""
    return await working_memory.submit_command(
        agent=agent,
        thread=thread,
        command=ClearKeys(),
        if_match=if_match,
        request=request,
    )


def build_retiming(
    thread: Thread, key: str, expiry: Expiry, expected: Expected
) -> RetimeKey:
    """Build the command, with the value if an ancestor's value must be written anew.

    `thread` comes with its subject. Raises KeyNotFoundError, ContentErasedError.
    """
    value = None
    if thread.parent_id is not None:
        line = keys.get_key(thread, key, content=False)
        if line.inherited:
            value = strict_json.dump_stored(keys.get_key(thread, key).value)
            if expected == Expected():
                # Write exactly the value that was read.
                expected = Expected(version=line.version)
    return RetimeKey(key=key, expiry=expiry, expected=expected, value=value)


def parse_setting(
    key: str, text: bytes, expiry: Expiry, expected: Expected = ANY
) -> SetKey:
    """Build the command that sets a key to a JSON text.

    Raises JsonRefusedError and ValueTooLargeError.
    """
    return build_setting(
        key, strict_json.parse(text, strict_json.CONTENT), expiry, expected
    )


def build_setting(
    key: str, value: Any, expiry: Expiry, expected: Expected = ANY
) -> SetKey:
    """Build the command that sets a key. Raises ValueTooLargeError."""
    size = len(strict_json.dump_canonical(value))
    if size > MAX_VALUE_BYTES:
        raise ValueTooLargeError(max_bytes=MAX_VALUE_BYTES)
    return SetKey(
        key=key,
        value=strict_json.dump_stored(value),
        bytes=size,
        expiry=expiry,
        expected=expected,
    )
