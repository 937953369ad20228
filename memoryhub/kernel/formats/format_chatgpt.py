"""The format `chatgpt`: the conversations.json of ChatGPT's export.

Pure. A conversation is a tree of messages (`mapping`), of which the branch that ends at
`current_node` is read, as messages of chat completions: its own shape no model takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import format_runs
from memoryhub.kernel.formats.records import Bad, Record
from memoryhub.kernel.formats.transcripts import (
    Calls,
    Item,
    Message,
    Options,
    Run,
    Thread,
    read_message,
    require_thread_name,
)
from memoryhub.kernel.messages.reading import ROLES
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text.times import YEARS

LIMITS = format_runs.LIMITS
MAPPING = "mapping"
#: Members of a message's content that are its words, in the order they are read.
_WORDS = ("name", "title", "text", "result", "content", "url", "user_profile",
          "user_instructions")  # fmt: skip
#: What the model thought is no part of what it said.
_THOUGHTS = frozenset({"thoughts", "reasoning_recap"})
#: Whom a message is for that calls no tool.
_EVERYBODY = (None, "", "all")


def read(found: Iterator[Record | Bad], options: Options) -> Iterator[Item]:
    """Yield a Run for each conversation, unless it or any message of it is bad."""
    return format_runs.read_conversations(
        found, MAPPING, lambda record, value: _build_run(record, value, options)
    )


def _build_run(record: Record, value: dict[str, Any], options: Options) -> Run:
    nodes = _branch(value)
    thread = _thread(record, value, options)
    messages = tuple(_messages(nodes, thread))
    if not messages:
        raise InvalidError(code="value", loc=MAPPING)
    return Run(thread=thread, messages=messages, index=record.index, place=record.place)


def _branch(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages from the root to the current node, or to the newest leaf."""
    mapping = conversation.get(MAPPING)
    if not isinstance(mapping, dict):
        raise InvalidError(code="missing", loc=MAPPING)
    name = conversation.get("current_node")
    if _node(mapping, name) is None:
        parents = [each.get("parent") for each in mapping.values() if _is(each)]
        inner = {each for each in parents if isinstance(each, str)}
        name = next((key for key in reversed(mapping) if key not in inner), None)
    found, seen = [], set[str]()
    # Of a tree that is none, each node comes once.
    while isinstance(name, str) and name not in seen and name in mapping:
        seen.add(name)
        if (node := _node(mapping, name)) is None:
            break
        if _is(message := node.get("message")):
            found.append(message)
        name = node.get("parent")
    return found[::-1]


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def _node(mapping: dict[str, Any], name: Any) -> Any:
    node = mapping.get(name) if isinstance(name, str) else None
    return node if _is(node) else None


def _messages(nodes: list[dict[str, Any]], thread: Thread) -> Iterator[Message]:
    calls, call = Calls(), None
    for node in nodes:
        author = node.get("author")
        author = author if isinstance(author, dict) else {}
        words = _words(node.get("content"))
        if not words:
            continue
        content = _message(node, author, words, call)
        message = read_message(
            content, thread=thread.name, calls=calls, agent_at=_time(node)
        )
        call = node.get("id") if "tool_calls" in content else None
        yield message


def _message(
    node: dict[str, Any], author: dict[str, Any], words: str, call: Any
) -> dict[str, Any]:
    role, to = author.get("role"), node.get("recipient")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidError(code="role", loc="role")
    if role == "assistant" and to not in _EVERYBODY:
        custom = {"name": to, "input": words}
        called = {"id": node.get("id"), "type": "custom", "custom": custom}
        return {"role": role, "content": None, "tool_calls": [called]}
    content = {"role": role, "content": words}
    if role != "tool":
        return content
    # A tool answers the message before it; what it says unasked is no result.
    name = author.get("name")
    if call is None:
        return {"role": "function", "name": name, "content": words}
    return {**content, "tool_call_id": call, "name": name}


def _words(content: Any) -> str:
    """All that can be read of a message's content, part by part."""
    if isinstance(content, str):
        return content
    if not isinstance(content, dict) or content.get("content_type") in _THOUGHTS:
        return ""
    parts = content.get("parts")
    found = [_words(part) for part in parts] if isinstance(parts, list) else []
    found += [each for name in _WORDS if isinstance(each := content.get(name), str)]
    if (pointer := content.get("asset_pointer")) is not None:
        found.append(_medium(content, pointer))
    return "\n".join(filter(None, found))


def _medium(part: dict[str, Any], pointer: Any) -> str:
    """A line for what lies beside the export, in a file of its own."""
    kind = str(part.get("content_type") or "file").partition("_")[0]
    width, height = part.get("width"), part.get("height")
    size = f" {width}×{height}" if width and height else ""
    return f"[{kind}{size} {pointer}]"


def _time(node: dict[str, Any]) -> datetime | None:
    """When it was said: seconds since 1970, of the years that are taken."""
    at = node.get("create_time")
    if not isinstance(at, int | float) or isinstance(at, bool):
        return None
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.year in YEARS else None


def _thread(record: Record, value: dict[str, Any], options: Options) -> Thread:
    own = value.get("conversation_id") or value.get("id") or record.index
    title = value.get("title")
    return Thread(
        name=require_thread_name(f"{options.source}:{own}"),
        user_id=options.user_id,
        scope=Scope(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "chatgpt"},
        format="chatgpt",
        info={"title": title} if isinstance(title, str) else None,
    )
