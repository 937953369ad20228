"""The format `chatgpt`: the conversations.json of ChatGPT's export.

Pure. A conversation is a tree of messages (`mapping`). The branch that ends at
`current_node` is read, as messages of chat completions, since no model takes the
export's own shape. Messages of other branches, empty ones and thoughts are counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import format_runs
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import (
    Calls,
    ImportedMessage,
    ImportedRun,
    ImportedThread,
    ImportOptions,
    Item,
    read_message,
    require_thread_name,
)
from memoryhub.kernel.messages.reading import ROLES
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.times import YEARS

LIMITS = format_runs.LIMITS
MAPPING = "mapping"
#: Members with the words of a message's content, in reading order.
_WORDS = ("name", "title", "text", "result", "content", "url", "user_profile",
          "user_instructions", "model_set_context", "summary", "snippet",
          "output_str")  # fmt: skip
#: Content types of thoughts, which are not imported.
_THOUGHTS = frozenset({"thoughts", "reasoning_recap"})
#: Recipients of messages that call no tool.
_EVERYBODY = (None, "", "all")


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedRun for each conversation, unless any part of it is bad."""
    return format_runs.read_conversations(
        found,
        MAPPING,
        lambda record, value, parts: _build_run(record, value, options, parts),
    )


def _build_run(
    record: FileRecord,
    value: dict[str, Any],
    options: ImportOptions,
    parts: Counter[str],
) -> ImportedRun | None:
    """Build the run of a conversation, or None for one in which nothing was said."""
    nodes = _list_branch(value)
    thread = _build_thread(value, nodes, options)
    messages = tuple(_iter_messages(nodes, thread))
    if not messages:
        objects = [*value[MAPPING].values(), *(each.get("author") for each in nodes)]
        if not objects or not all(map(_is_object, objects)):
            raise InvalidError(code="value", loc=MAPPING)
        parts["conversations.empty"] += 1
        return None
    every = [
        each.get("message") for each in value[MAPPING].values() if _is_object(each)
    ]
    parts["branches.messages"] += sum(map(_is_object, every)) - len(nodes)
    thoughts = [each for each in nodes if _is_thought(each.get("content"))]
    parts["thoughts"] += len(thoughts)
    unsaid = len(nodes) - len(messages)
    parts["messages.empty"] += unsaid - sum(not _render_node(each) for each in thoughts)
    return ImportedRun(
        thread=thread, messages=messages, index=record.index, place=record.place
    )


def _list_branch(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages from the root to the current node, or to the newest leaf."""
    mapping = conversation.get(MAPPING)
    if not isinstance(mapping, dict):
        raise InvalidError(code="missing", loc=MAPPING)
    name = conversation.get("current_node")
    if _find_node(mapping, name) is None:
        parents = [each.get("parent") for each in mapping.values() if _is_object(each)]
        inner = {each for each in parents if isinstance(each, str)}
        name = next((key for key in reversed(mapping) if key not in inner), None)
    found, seen = [], set[str]()
    # If the tree has a circle, each node comes once.
    while isinstance(name, str) and name not in seen and name in mapping:
        seen.add(name)
        if (node := _find_node(mapping, name)) is None:
            break
        if _is_object(message := node.get("message")):
            found.append(message)
        name = node.get("parent")
    return found[::-1]


def _is_thought(content: Any) -> bool:
    return _is_object(content) and content.get("content_type") in _THOUGHTS


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _find_node(mapping: dict[str, Any], name: Any) -> Any:
    node = mapping.get(name) if isinstance(name, str) else None
    return node if _is_object(node) else None


def _iter_messages(
    nodes: list[dict[str, Any]], thread: ImportedThread
) -> Iterator[ImportedMessage]:
    calls, call = Calls(), None
    for node in nodes:
        author = node.get("author")
        author = author if isinstance(author, dict) else {}
        words = _render_node(node)
        if not words:
            continue
        content = _build_content(node, author, words, call)
        message = read_message(
            content, thread=thread.name, calls=calls, agent_at=_parse_time(node)
        )
        call = node.get("id") if "tool_calls" in content else None
        yield message


def _build_content(
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
    # A tool answers the message before it; without a call its text is no result.
    name = author.get("name")
    if call is None:
        return {"role": "function", "name": name, "content": words}
    return {**content, "tool_call_id": call, "name": name}


def _render_node(node: dict[str, Any]) -> str:
    """Render all words of a message, and a line for each file that they do not name."""
    files = [*_iter_attachments(node)]
    words = _render_words(node.get("content"), dict(files))
    others = [
        f"[file {name}]"
        for own, name in files
        if not (own and own in words and name in words)
    ]
    return "\n".join(filter(None, [words, *others]))


def _render_words(content: Any, files: Mapping[str, str]) -> str:
    """Render all readable text of a content, part by part; `files` has names by id."""
    if isinstance(content, str):
        return content
    if not isinstance(content, dict) or _is_thought(content):
        return ""
    parts = content.get("parts")
    found = []
    if isinstance(parts, list):
        found = [_render_words(part, files) for part in parts]
    found += [each for name in _WORDS if isinstance(each := content.get(name), str)]
    if (pointer := content.get("asset_pointer")) is not None:
        found.append(_render_medium(content, pointer, files))
    return "\n".join(filter(None, found))


def _iter_attachments(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the id, "" without one, and the name of each attached file."""
    metadata = node.get("metadata")
    listed = metadata.get("attachments") if isinstance(metadata, dict) else None
    for each in listed if isinstance(listed, list) else ():
        name = each.get("name") if _is_object(each) else None
        if isinstance(name, str) and name:
            yield str(each.get("id") or ""), name


def _render_medium(part: dict[str, Any], pointer: Any, files: Mapping[str, str]) -> str:
    """Render a line for a medium that the export has in a separate file."""
    kind = str(part.get("content_type") or "file").partition("_")[0]
    width, height = part.get("width"), part.get("height")
    size = f"{width}×{height}" if width and height else ""
    # A pointer is an id behind a scheme, such as `file-service://`.
    name = files.get(str(pointer).rpartition("/")[2], "")
    return f"[{' '.join(filter(None, [kind, size, name, str(pointer)]))}]"


def _parse_time(node: dict[str, Any]) -> datetime | None:
    """Parse the time of a message, in seconds since 1970; None outside `YEARS`."""
    at = node.get("create_time")
    if not isinstance(at, int | float) or isinstance(at, bool):
        return None
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.year in YEARS else None


def _digest_begin(value: dict[str, Any], nodes: list[dict[str, Any]]) -> str:
    """Digest the begin of a conversation without an id, which later exports repeat.

    Its place in the file would be another conversation's in a later export.
    """
    begin = [value.get("create_time")]
    for first in nodes[:1]:
        begin += [first.get("id"), first.get("create_time"), _render_node(first)]
    text = strict_json.dump_canonical(begin)
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _build_thread(
    value: dict[str, Any], nodes: list[dict[str, Any]], options: ImportOptions
) -> ImportedThread:
    own = value.get("conversation_id") or value.get("id") or _digest_begin(value, nodes)
    title = value.get("title")
    return ImportedThread(
        name=require_thread_name(f"{options.source}:{own}"),
        user_id=options.user_id,
        scope=ScopeLabels(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "chatgpt"},
        format="chatgpt",
        info={"title": title} if isinstance(title, str) else None,
        can_change=True,
    )
