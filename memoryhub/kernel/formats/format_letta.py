"""The format `letta`: agent files (`.af`) of Letta.

Pure. Each agent's messages are a thread. The blocks of all agents are blocks of the
subject. Tools, sources, secrets and settings have no place here and are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import records
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import (
    Calls,
    ImportedBlock,
    ImportedMessage,
    ImportedRun,
    ImportedThread,
    ImportOptions,
    Item,
    Omission,
    get_code,
    is_empty,
    parse_record,
    read_message,
    render_limits,
    require_thread_name,
)
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json, times
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = strict_json.JsonLimits(
    max_bytes=64 * 1_048_576, max_depth=64, max_nodes=1_000_000, content=True
)
#: Members with the agents of a file, and with the blocks of a file of one agent.
AGENTS, CORE_MEMORY = "agents", "core_memory"
#: Members of an agent that are kept with the thread.
_KEPT = frozenset({
    *("name", "description", "system", "agent_type", "tags", "metadata", "metadata_"),
    *("timezone", "in_context_message_ids", "in_context_message_indices"),
})  # fmt: skip
#: Members of a file and of an agent that only connect parts, or are read elsewhere.
_READ = frozenset({
    *(AGENTS, CORE_MEMORY, "blocks", "messages", "metadata", "id", "version"),
    *("created_at", "updated_at", "block_ids", "tool_ids", "source_ids", "folder_ids"),
    *("group_ids", "memory_blocks"),
})  # fmt: skip
_BLOCK = frozenset({
    *("id", "label", "value", "description", "read_only", "created_at", "updated_at"),
})  # fmt: skip
#: Members of a message that only name where the message stood.
_MESSAGE = frozenset({"type", "agent_id", "batch_item_id"})
#: Members of a message that are left out and counted.
_LEFT_OUT = frozenset({"group_id", "sender_id"})
_ODD = re.compile(r"[^A-Za-z0-9._:@-]")
_MAX_NAME = 128

Members = dict[str, Any]


def can_be_file(value: Any) -> bool:
    """Return whether a value may be an agent file."""
    return isinstance(value, dict) and all(
        isinstance(value.get(name), list)
        for name in ((AGENTS, "blocks") if AGENTS in value else (CORE_MEMORY,))
    )


def cut_file(
    chunks: Iterable[bytes], *, max_bytes: int
) -> Iterator[FileRecord | BadRecord]:
    """Yield the file's object, also where the file is a JSON string of the object."""
    first_byte, source = records.peek_first_byte(chunks)
    if first_byte == b'"':
        raw = bytearray()
        while len(raw) <= max_bytes and (chunk := next(source, b"")):
            raw += chunk
        record = FileRecord(
            raw=bytes(raw),
            index=0,
            place=records.TextPosition(line=1, offset=0),
        )
        text = parse_record(record, LIMITS)
        if isinstance(text, BadRecord):
            yield text
            return
        source = iter([str(text).encode()])
    yield from records.cut_objects(source, max_bytes=max_bytes)


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedBlock for each block and an ImportedRun for each agent."""
    for record in found:
        value = record
        if isinstance(record, FileRecord):
            value = parse_record(record, LIMITS)
        if isinstance(value, BadRecord):
            yield value
        elif isinstance(record, FileRecord):
            yield from _read_file(record, value, options)


def _read_file(
    record: FileRecord, value: Any, options: ImportOptions
) -> Iterator[Item]:
    if not can_be_file(value):
        yield record.build_bad("unknown_format", run=record.index)
        return
    parts = Counter[str]()
    whole = AGENTS in value
    agents = value[AGENTS] if whole else [value]
    if whole:
        _count_members(parts, "", value, _READ)
    for agent in _list_objects(agents):
        _count_members(parts, "agent.", agent, _READ | _KEPT | {AGENTS})
    yield from _iter_blocks(
        record,
        [
            *_list_objects(value["blocks"] if whole else value[CORE_MEMORY]),
            *chain.from_iterable(
                _list_objects(agent.get("memory_blocks")) for agent in agents if whole
            ),
        ],
        options,
        parts,
    )
    for number, agent in enumerate(agents):
        item = _read_agent(record, number, agent, options, parts)
        if item is not None:
            yield item
    if parts:
        yield Omission(parts=parts)


def _list_objects(value: Any) -> list[Members]:
    found = value if isinstance(value, list) else []
    return [each for each in found if isinstance(each, dict)]


def _count_members(
    parts: Counter[str], prefix: str, value: Members, read: AbstractSet[str]
) -> None:
    """Count the members that are not read: elements of lists, else one each."""
    for name, member in value.items():
        if name not in read and not is_empty(member):
            parts[prefix + name] += len(member) if isinstance(member, list) else 1


def _iter_blocks(
    record: FileRecord,
    blocks: list[Members],
    options: ImportOptions,
    parts: Counter[str],
) -> Iterator[ImportedBlock]:
    """Yield each block under its label; another block of that label adds its own id."""
    held: dict[str, str] = {}
    for number, block in enumerate(blocks):
        label, text = block.get("label"), block.get("value")
        _count_members(parts, "block.", block, _BLOCK)
        name = _ODD.sub("_", str(label).replace("/", ".")).lstrip("._:@-")[:_MAX_NAME]
        text = text if isinstance(text, str) else ""
        if name in held and held[name] != text:
            tail = ":" + _ODD.sub("_", str(block.get("id") or number))
            name = name[: _MAX_NAME - len(tail)] + tail
        if name in held:
            continue
        held[name] = text
        description = block.get("description")
        yield ImportedBlock(
            user_id=options.user_id,
            name=name,
            text=text,
            description=description if isinstance(description, str) else "",
            read_only=block.get("read_only") is True,
            index=number,
            place=record.place,
        )


def _read_agent(
    record: FileRecord,
    number: int,
    agent: Any,
    options: ImportOptions,
    parts: Counter[str],
) -> ImportedRun | BadRecord | None:
    """Return the thread of an agent, or None without any message."""
    nth = None
    try:
        if not isinstance(agent, dict):
            raise InvalidError(code="object_expected")
        thread = _build_thread(agent, number, options)
        calls, messages = Calls(), list[ImportedMessage]()
        for index, sent in enumerate(_list_objects(agent.get("messages"))):
            nth = index
            _count_members(parts, "message.", sent, sent.keys() - _LEFT_OUT)
            content = _build_content(sent)
            if content is None:
                parts["message.empty"] += 1
                continue
            at = times.parse_instant(sent.get("created_at"))
            messages.append(
                read_message(content, thread=thread.name, calls=calls, agent_at=at)
            )
    except (InvalidError, JsonRefusedError) as refusal:
        return record.build_bad(
            get_code(refusal), run=number, message=nth, detail=render_limits(refusal)
        )
    if not messages:
        return None
    return ImportedRun(
        thread=thread, messages=tuple(messages), index=number, place=record.place
    )


def _build_thread(
    agent: Members, number: int, options: ImportOptions
) -> ImportedThread:
    own = agent.get("id") or number
    kept = {n: v for n, v in agent.items() if n in _KEPT and not is_empty(v)}
    return ImportedThread(
        name=require_thread_name(f"{options.source}:{own}"),
        user_id=options.user_id,
        scope=ScopeLabels(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "letta"},
        format="letta",
        info=kept or None,
        can_change=True,
    )


def _build_content(sent: Members) -> Members | None:
    """Build a message in a shape that models take; None if the message says nothing."""
    content = {
        name: value
        for name, value in sent.items()
        if name not in _MESSAGE | _LEFT_OUT
        and (name == "approve" or not is_empty(value))
    }
    calls = {each.get("id") for each in _list_objects(sent.get("tool_calls"))}
    words = content.pop("content", None)
    if isinstance(words, list):
        words = [*filter(None, (_build_part(part, calls) for part in words))]
    approvals = _list_objects(content.pop("approvals", None))
    returns = _list_objects(content.pop("tool_returns", None))
    returns += [each for each in approvals if "approve" not in each]
    if returns:
        # Older files name the call of the first result in the message alone.
        own = content.pop("tool_call_id", None)
        first, *others = returns
        named = {**first, "tool_call_id": first.get("tool_call_id") or own}
        words = _merge_results(words, [named, *others])
    if decided := [each for each in approvals if "approve" in each]:
        content["approvals"] = decided
    role = sent.get("role")
    if role == "approval":
        role = "assistant" if calls else "tool" if returns else "user"
    content["role"] = "system" if role == "summary" else role
    if not words and not calls and not {"approve", "approvals"} & content.keys():
        return None
    return {**content, "content": words or None}


def _merge_results(words: Any, returns: list[Members]) -> list[Any]:
    """Return the parts of a message and its results, each text once."""
    parts = [{"type": "text", "text": words}] if isinstance(words, str) else words or []
    results = [*map(_build_result, returns)]
    if len(results) == 1 and not results[0]["content"]:
        return [{**results[0], "content": parts}]
    texts = [each["content"] for each in results]
    return [part for part in parts if part.get("text") not in texts] + results


def _build_part(part: Any, calls: set[Any]) -> Any:
    """Build a part of a message; None for a part that is empty or stands elsewhere."""
    if not isinstance(part, dict):
        return {"type": "text", "text": str(part)}
    kind = part.get("type")
    found = {name: value for name, value in part.items() if not is_empty(value)}
    if kind == "omitted_reasoning" or (kind == "tool_call" and part.get("id") in calls):
        return None
    if kind == "tool_return":
        return _build_result({**part, "func_response": part.get("content")})
    if kind == "redacted_reasoning":
        return {**found, "type": "redacted_thinking"}
    if kind == "summarized_reasoning":
        texts = [str(each.get("text")) for each in _list_objects(part.get("summary"))]
        return {**found, "type": "reasoning", "reasoning": "\n".join(texts)}
    return found if len(found) > 1 else None


def _build_result(returned: Members) -> Members:
    """Build the result block of a tool's return."""
    failed = returned.get("status") == "error" or returned.get("is_error") is True
    found = returned.get("func_response") or returned.get("tool_return") or ""
    outputs = {n: v for n in ("stdout", "stderr") if (v := returned.get(n))}
    return {
        "type": "tool_result",
        "tool_use_id": returned.get("tool_call_id"),
        "content": found,
        **({"is_error": True} if failed else {}),
        **outputs,
    }
