"""The format `claude`: the conversations.json of Claude's export.

Pure. A conversation is a list of messages. The branch that ends at the current leaf is
read, as Anthropic messages: tool results, which the export has amid an answer, become
separate messages. Messages of other branches and thoughts are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, Final

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
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import times

LIMITS = format_runs.LIMITS
MESSAGES = "chat_messages"
_ROLES = {"human": "user", "assistant": "assistant"}
#: Members of a block that a model takes. A block of another type keeps all non-empty
#: members.
_MEMBERS = {
    "text": ("type", "text"),
    "tool_use": ("type", "id", "name", "input"),
    "tool_result": ("type", "tool_use_id", "name", "content", "is_error"),
}
_STAMPS = frozenset({"start_timestamp", "stop_timestamp"})
#: Block types that are not imported: thoughts, and the remaining token budget.
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_UNSAID = _THOUGHTS | {"token_budget"}
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})

Block = dict[str, Any]


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedRun for each conversation with words, unless any part is bad."""
    return format_runs.read_conversations(
        found,
        MESSAGES,
        lambda record, value, parts: _build_run(record, value, options, parts),
    )


def _build_run(
    record: FileRecord, value: Block, options: ImportOptions, parts: Counter[str]
) -> ImportedRun | None:
    thread, branch = _build_thread(record, value, options), _list_branch(value)
    messages = tuple(_iter_messages(branch, thread))
    parts["branches.messages"] += len(value[MESSAGES]) - len(branch)
    blocks = (each for sent in branch for each in _list_members(sent, "content"))
    parts["thoughts"] += sum(_get_text(each, "type") in _THOUGHTS for each in blocks)
    if not messages:
        parts["conversations.empty"] += 1
        return None
    return ImportedRun(
        thread=thread, messages=messages, index=record.index, place=record.place
    )


def _list_branch(conversation: Block) -> list[Block]:
    """Return the messages from the first to the current leaf, or else to the newest.

    All messages are returned if no message names its predecessor, as in older exports.
    A message whose predecessor the export lacks follows the one that stands before it.
    """
    sent = conversation.get(MESSAGES)
    if not isinstance(sent, list):
        raise InvalidError(code="missing", loc=MESSAGES)
    if not all(isinstance(each, dict) for each in sent):
        raise InvalidError(code="object_expected", loc=MESSAGES)
    by_id = {id_: each for each in sent if (id_ := _get_text(each, "uuid"))}
    if not any(_get_text(each, "parent_message_uuid") in by_id for each in sent):
        return sent
    leaf = by_id.get(_get_text(conversation, "current_leaf_message_uuid"), sent[-1])
    before = {id(each): earlier for earlier, each in pairwise(sent)}
    root = _get_text(sent[0], "parent_message_uuid")
    found, here = list[Block](), leaf
    # The limit ends a circle of messages.
    while here is not None and len(found) < len(sent):
        found.append(here)
        parent = _get_text(here, "parent_message_uuid")
        lost = parent not in ("", root) and parent not in by_id
        here = before.get(id(here)) if lost else by_id.get(parent)
    return found[::-1]


def _iter_messages(
    sent: list[Block], thread: ImportedThread
) -> Iterator[ImportedMessage]:
    calls = Calls()
    for each in sent:
        role = _ROLES.get(_get_text(each, "sender"))
        if role is None:
            raise InvalidError(code="role", loc="sender")
        whole = [*_list_blocks(each), *_iter_attachments(each)]
        for answers, blocks in groupby(whole, key=_is_result):
            content: Any = [*blocks]
            if [block["type"] for block in content] == ["text"]:
                content = content[0]["text"]
            yield read_message(
                {"role": "user" if answers else role, "content": content},
                thread=thread.name,
                calls=calls,
                agent_at=times.parse_instant(each.get("created_at")),
            )


def _is_result(block: Block) -> bool:
    is_result: bool = block["type"] == "tool_result"
    return is_result


def _list_blocks(sent: Block) -> list[Block]:
    """Return the blocks of a message; older exports have only a text."""
    blocks = [*filter(None, map(_build_block, _list_members(sent, "content")))]
    text = _get_text(sent, "text")
    return blocks if blocks or not text.strip() else [{"type": "text", "text": text}]


def _build_block(block: Any) -> Block | None:
    """Build a block in the shape a model takes; None for an empty or unread block."""
    kind = _get_text(block, "type")
    if (
        not kind
        or kind in _UNSAID
        or (kind == "text" and not _get_text(block, "text").strip())
    ):
        return None
    names = _MEMBERS.get(kind, block.keys() - _STAMPS)
    found = {n: v for n, v in block.items() if n in names and v not in _NOTHING}
    if kind == "tool_use":
        found.setdefault("input", {})
    if isinstance(content := found.get("content"), list):
        found["content"] = [*filter(None, map(_build_block, content))]
    return found if len(found) > 1 or kind == "tool_result" else None


def _iter_attachments(sent: Block) -> Iterator[Block]:
    """Yield the texts of attachments, and a line for each file outside the export."""
    for each in (*_list_members(sent, "attachments"), *_list_members(sent, "files")):
        name, data = _get_text(each, "file_name"), _get_text(each, "extracted_content")
        if data:
            source = {"type": "text", "media_type": "text/plain", "data": data}
            title = {"title": name} if name else {}
            yield {"type": "document", "source": source, **title}
        elif name:
            yield {"type": "text", "text": f"[file {name}]"}


def _list_members(value: Block, name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []


def _get_text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _build_thread(
    record: FileRecord, value: Block, options: ImportOptions
) -> ImportedThread:
    own, title = _get_text(value, "uuid") or record.index, _get_text(value, "name")
    return ImportedThread(
        name=require_thread_name(f"{options.source}:{own}"),
        user_id=options.user_id,
        scope=ScopeLabels(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "claude"},
        format="claude",
        info={"title": title} if title else None,
        can_change=True,
    )
