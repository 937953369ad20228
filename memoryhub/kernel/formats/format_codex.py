"""The format `codex`: session files of Codex (rollouts), JSON Lines.

Pure. Each line of the type `response_item` holds an item of Responses; all other lines
are the program's own records. A file is one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.format_runs import LIMITS
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import (
    Calls,
    ImportedLine,
    ImportedMessage,
    ImportedThread,
    ImportOptions,
    Item,
    get_code,
    parse_line,
    read_message,
    read_time,
    render_limits,
    require_thread_name,
)
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text.strict_json import JsonRefusedError

__all__ = ["LIMITS", "can_be_line", "read"]

#: A private item type of Codex, which no model is given.
_OWN = "ghost_snapshot"


def can_be_line(value: Any) -> bool:
    """Return whether a value may be a line of a Codex session file."""
    return isinstance(value, dict) and {"type", "payload"} <= value.keys()


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedLine for each item; those of one answer follow each other."""
    thread = ImportedThread(
        name=require_thread_name(options.source),
        user_id=options.user_id,
        scope=ScopeLabels(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "codex"},
        format="codex",
    )
    calls, answering = Calls(), False
    for record in found:
        if isinstance(record, BadRecord):
            yield replace(record, run=None, message=record.run)
            continue
        message = _read_record(record, thread, calls, answering=answering)
        if isinstance(message, BadRecord):
            yield message
        elif message is not None:
            answering = message.role == "assistant"
            yield ImportedLine(
                thread=thread, message=message, index=record.index, place=record.place
            )


def _read_record(
    record: FileRecord, thread: ImportedThread, calls: Calls, *, answering: bool
) -> ImportedMessage | BadRecord | None:
    """Return the message of a line; None for a program's record."""
    value = parse_line(record, LIMITS)
    if isinstance(value, BadRecord):
        return value
    if not isinstance(value, dict):
        return record.build_bad("object_expected", message=record.index)
    item = value.get("payload")
    kind = item.get("type") if isinstance(item, dict) else None
    if value.get("type") != "response_item" or kind == _OWN:
        return None
    try:
        message = read_message(
            item,
            thread=thread.name,
            calls=calls,
            agent_at=read_time(value.get("timestamp")),
        )
    except (InvalidError, JsonRefusedError) as refusal:
        return record.build_bad(
            get_code(refusal), message=record.index, detail=render_limits(refusal)
        )
    return replace(message, turn_begins=message.turn_begins and not answering)
