"""Memory tools of a model, where its thread allows them: notes, keys and blocks.

The tools use the API's services, with the model as author. Each answer is a plain
sentence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memoryhub.errors import (
    BlockReadOnlyError,
    BlocksFullError,
    KeyNotFoundError,
    KeysFullError,
    NotInBlockError,
    NotUniqueError,
    PageErasedError,
    PageUnknownError,
    ThreadClosedError,
    ValueErasedError,
    ValueTooLargeError,
)
from memoryhub.journal import KeyedRequest
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES, is_block_name
from memoryhub.kernel.text import names, strict_json
from memoryhub.kernel.tools import memory_tools, tools
from memoryhub.kernel.tools.tools import Failure
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys as reading
from memoryhub.queries.paging import pages
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks
from memoryhub.services.knowledge.blocks import BlockConditions
from memoryhub.services.memory import keys, working_memory

#: Most bytes of a line of the scratchpad.
_MAX_NOTE = 16 * 1024
_REFUSED = (
    *(BlockReadOnlyError, NotInBlockError, NotUniqueError, PageErasedError),
    *(
        BlocksFullError,
        PageUnknownError,
        KeysFullError,
        ThreadClosedError,
        ValueErasedError,
    ),
    ValueTooLargeError,
)
_OFF = "This thread does not allow that."
_NO_BLOCK = "There is no block of that name. Those that there are stand in <VM:BLOCKS>."
_TOO_LARGE = (
    f"A block holds {MAX_BLOCK_BYTES} bytes. Put less in the place of some of it."
)
_NO_NAME = "That is no name: letters, digits and ._:@- only, at most 128."


async def answer_call(
    *, agent: Agent, thread: str, sent: Any, request: KeyedRequest | None = None
) -> dict[str, Any] | None:
    """Run a model's call of a memory tool, and return the tool's message.

    None for a call of any other tool. The message tells the model about its mistakes
    and about forbidden acts. Raises NotFoundError, SubjectRestrictedError and the like.
    """
    parsed = tools.parse_memory_call(sent)
    if parsed is None:
        return None
    name, given = parsed
    row = await read(threads.get_unrestricted, agent.project, thread, bound=agent.bound)
    if isinstance(given, Failure):
        return tools.answer(sent, given)
    allowed = pages.parse_settings(row).model_tools
    content = (
        await _run_tool(agent, row, name, given, request) if allowed else Failure(_OFF)
    )
    return tools.answer(sent, content)


async def _run_tool(
    agent: Agent,
    thread: Thread,
    name: str,
    given: dict[str, Any],
    request: KeyedRequest | None,
) -> str:
    """Run the tool of this name and return its answer."""
    called = agent.get_thread_name(thread.name)
    key, block = given.get("key"), given.get("block")
    named = key is None or names.is_valid(key)
    if not named or not (block is None or is_block_name(block)):
        return Failure(_NO_NAME)
    if name == memory_tools.KEY_GET:
        return await read(_read_key, thread, given["key"])
    try:
        if name == memory_tools.NOTE_ADD:
            return await _add_note(agent, called, given["text"], request)
        if name == memory_tools.KEY_SET:
            return await _set_key(agent, called, given, request)
        return await _edit_block(agent, thread, given, request)
    except _REFUSED as refusal:
        return Failure(refusal.sentence)


async def _add_note(
    agent: Agent, thread: str, text: str, request: KeyedRequest | None
) -> str:
    """Add a note to the scratchpad."""
    size = len(text.encode())
    if not 1 <= size <= _MAX_NOTE:
        return Failure(f"A note has 1 to {_MAX_NOTE} bytes.")
    note = NewNote(text=strict_json.dump_stored(text), bytes=size)
    await working_memory.submit_command(
        agent=agent,
        thread=thread,
        command=AddNotes(notes=(note,), by="model"),
        texts=[note.text],
        request=request,
    )
    return "Noted."


async def _set_key(
    agent: Agent, thread: str, given: dict[str, Any], request: KeyedRequest | None
) -> str:
    """Set a key of working memory."""
    setting = keys.build_setting(given["key"], given["value"], Expiry())
    change = replace(setting, by="model")
    await keys.change_keys(
        agent=agent, thread=thread, changes=(change,), request=request
    )
    return "The value is kept."


def _read_key(thread: Thread, key: str) -> str:
    """Read a key's value as JSON text."""
    try:
        value = reading.get_key(thread, key).value
    except KeyNotFoundError:
        return Failure("There is no value under that name.")
    return strict_json.dump_stored(value).decode()


async def _edit_block(
    agent: Agent, thread: Thread, given: dict[str, Any], request: KeyedRequest | None
) -> str:
    """Append to a block, made if need be, or replace text in a block."""
    where = {"agent": agent, "subject": thread.subject, "block": given["block"]}
    conditions = BlockConditions(by="model", request=request)
    old, new = given.get("old"), given["new"]
    if old == "":
        return Failure(
            "Say what `new` is to stand in the place of, or leave `old` out."
        )
    try:
        if old is None:
            await blocks.append_text(text=new, conditions=conditions, **where)
            return "It stands at the end of the block."
        await blocks.replace_text(old=old, new=new, conditions=conditions, **where)
    except PageUnknownError:
        return Failure(_NO_BLOCK)
    except ValueTooLargeError:
        return Failure(_TOO_LARGE)
    return "The block is changed."
