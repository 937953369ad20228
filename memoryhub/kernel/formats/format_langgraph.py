"""The format `langgraph`: checkpoints as LangGraph's SQLite saver keeps them.

Pure. The messages of a thread's newest checkpoint become messages of a thread here.
A message's time is that of the first checkpoint that holds the message's id.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import msgpack_data
from memoryhub.kernel.formats.records import BadRecord, TextPosition
from memoryhub.kernel.formats.transcripts import (
    Calls,
    ImportedMessage,
    ImportedRun,
    ImportedThread,
    ImportOptions,
    Item,
    Omission,
    get_code,
    is_empty,
    read_message,
    read_user_id,
    render_limits,
    require_thread_name,
)
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import names, strict_json, times
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = strict_json.JsonLimits(
    max_bytes=64 * 1_048_576, max_depth=64, max_nodes=1_000_000, content=True
)
#: The channel with a graph's messages.
CHANNEL = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCheckpoint:
    """A row of the saver's table, of the root graph."""

    thread_id: str
    #: How the checkpoint is packed: msgpack, json or another word.
    packing: str | None
    #: None: longer than `LIMITS` allow.
    packed: bytes | None
    #: JSON text.
    metadata: bytes
    place: TextPosition


def read(rows: Iterable[GraphCheckpoint], options: ImportOptions) -> Iterator[Item]:
    """Yield an ImportedRun for each thread; rows come by thread, oldest first.

    Holds one checkpoint at a time, and the times of a thread's message ids.
    """
    parts = Counter[str]()
    by_thread = groupby(rows, lambda row: row.thread_id)
    for index, (_, group) in enumerate(by_thread):
        item = _read_thread(group, index, options, parts)
        if item is not None:
            yield item
    if parts:
        yield Omission(parts=parts)


def _read_thread(
    rows: Iterator[GraphCheckpoint],
    index: int,
    options: ImportOptions,
    parts: Counter[str],
) -> ImportedRun | BadRecord | None:
    """Read a thread's checkpoints; None if the newest one holds no messages."""
    first_seen, count = dict[str, datetime](), 0
    opened: dict[str, Any] | BadRecord = {}
    for row in rows:
        count += 1
        opened = _open_checkpoint(row, index)
        if isinstance(opened, dict):
            _note_times(opened, first_seen)
    if count > 1:
        parts["checkpoints.earlier"] += count - 1
    if isinstance(opened, BadRecord):
        return opened
    values = opened["channel_values"]
    for name, value in values.items():
        if name != CHANNEL and not is_empty(value):
            parts[f"channel.{name if names.is_valid(name) else 'internal'}"] += 1
    if is_empty(values.get(CHANNEL)):
        # A delta channel has its messages in the writes, which are not read.
        versions = opened.get("channel_versions")
        written = isinstance(versions, dict) and CHANNEL in versions
        written = written and CHANNEL not in values
        why = "threads.messages_in_writes" if written else "threads.without_messages"
        parts[why] += 1
        return None
    return _build_run(row, values[CHANNEL], first_seen, index, options)


def _open_checkpoint(row: GraphCheckpoint, index: int) -> dict[str, Any] | BadRecord:
    """Return a checkpoint with its values, or why the checkpoint can't be read."""
    try:
        if row.packed is None:
            raise InvalidError(code="body_too_large")
        if row.packing == "msgpack":
            value = msgpack_data.parse(row.packed, max_nodes=LIMITS.max_nodes)
        elif row.packing == "json":
            value = strict_json.parse(row.packed, LIMITS)
        else:
            # Pickled and encrypted checkpoints are never opened.
            raise InvalidError(code="unknown_packing")
        if not isinstance(value, dict):
            raise InvalidError(code="object_expected")
        if not isinstance(value.get("channel_values"), dict):
            raise InvalidError(code="missing", loc="channel_values")
    except (InvalidError, JsonRefusedError) as refusal:
        return BadRecord(
            code=get_code(refusal),
            place=row.place,
            run=index,
            detail=render_limits(refusal),
        )
    return value


def _note_times(checkpoint: dict[str, Any], first_seen: dict[str, datetime]) -> None:
    """Note the checkpoint's time for each message that no earlier one holds."""
    at = times.parse_instant(checkpoint.get("ts"))
    messages = checkpoint["channel_values"].get(CHANNEL)
    if at is None or not isinstance(messages, list):
        return
    for message in messages:
        fields = _unwrap_message(message)
        if isinstance(fields, dict) and isinstance(fields.get("id"), str):
            first_seen.setdefault(fields["id"], at)


def _build_run(
    row: GraphCheckpoint,
    messages: Any,
    first_seen: dict[str, datetime],
    index: int,
    options: ImportOptions,
) -> ImportedRun | BadRecord:
    number: int | None = None
    read: list[ImportedMessage] = []
    try:
        if not isinstance(messages, list):
            raise InvalidError(code="list_expected")
        thread, calls = _build_thread(row, options), Calls()
        for message in messages:
            number = len(read)
            content = _build_content(message)
            own = content.get("id") if isinstance(content, dict) else None
            at = first_seen.get(own) if isinstance(own, str) else None
            read.append(
                read_message(content, thread=thread.name, calls=calls, agent_at=at)
            )
    except (InvalidError, JsonRefusedError) as refusal:
        return BadRecord(
            code=get_code(refusal),
            place=row.place,
            run=index,
            message=number,
            detail=render_limits(refusal),
        )
    return ImportedRun(
        thread=thread, messages=tuple(read), index=index, place=row.place
    )


def _build_thread(row: GraphCheckpoint, options: ImportOptions) -> ImportedThread:
    """Build the thread; the run's `user_id` in the metadata names the person."""
    metadata = strict_json.parse(row.metadata or b"{}", LIMITS)
    person = metadata.get("user_id") if isinstance(metadata, dict) else None
    user_id = options.user_id or read_user_id(person)
    name = f"{options.source}:{row.thread_id}"
    # A name must not tell a user's id.
    if not names.is_valid(name) or (user_id and user_id in row.thread_id):
        digest = hashlib.blake2b(row.thread_id.encode(), digest_size=8).hexdigest()
        name = f"{options.source}:{digest}"
    return ImportedThread(
        name=require_thread_name(name),
        user_id=user_id,
        scope=ScopeLabels(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "langgraph"},
        format="langgraph",
    )


def _unwrap_message(message: Any) -> Any:
    """Return a message's fields, out of the wrapper of a packing as JSON."""
    if isinstance(message, dict) and message.get("type") == "constructor":
        id_, fields = message.get("id"), message.get("kwargs")
        if isinstance(id_, list) and id_ and isinstance(fields, dict):
            return {"type": str(id_[-1]), **fields}
    return message


def _build_content(message: Any) -> Any:
    """Build a slot's content: LangChain's fields, without the empty ones."""
    fields = _unwrap_message(message)
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        return fields
    kind = fields["type"].removesuffix("Chunk")
    kind = kind.removesuffix("Message").lower()
    rest = {n: v for n, v in fields.items() if n == "content" or not is_empty(v)}
    return {**rest, "type": kind}
