"""The format `codex`: session files of Codex (rollouts), JSON Lines.

Pure. Lines of the type `response_item` hold an item of Responses each; all others are
the program's own records. A file is one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.format_runs import LIMITS
from memoryhub.kernel.formats.records import Bad, Record
from memoryhub.kernel.formats.transcripts import (
    Calls,
    Item,
    Line,
    Message,
    Options,
    Thread,
    code_of,
    limits_of,
    parse_line,
    read_message,
    read_time,
    require_thread_name,
)
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text.strict_json import JsonRefusedError

__all__ = ["LIMITS", "fits", "read"]

#: An item of Codex's own, which no model is given.
_OWN = "ghost_snapshot"


def fits(value: Any) -> bool:
    """Return whether it may be a line of such a file."""
    return isinstance(value, dict) and {"type", "payload"} <= value.keys()


def read(found: Iterator[Record | Bad], options: Options) -> Iterator[Item]:
    """Yield a Line for each item; those of one answer follow each other."""
    thread = Thread(
        name=require_thread_name(options.source),
        user_id=options.user_id,
        scope=Scope(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "codex"},
        format="codex",
    )
    calls, answering = Calls(), False
    for record in found:
        if isinstance(record, Bad):
            yield replace(record, run=None, message=record.run)
            continue
        message = _read(record, thread, calls, answering=answering)
        if isinstance(message, Bad):
            yield message
        elif message is not None:
            answering = message.role == "assistant"
            yield Line(
                thread=thread, message=message, index=record.index, place=record.place
            )


def _read(
    record: Record, thread: Thread, calls: Calls, *, answering: bool
) -> Message | Bad | None:
    """A line's item; None for a note."""
    value = parse_line(record, LIMITS)
    if isinstance(value, Bad):
        return value
    if not isinstance(value, dict):
        return record.bad("object_expected", message=record.index)
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
        return record.bad(
            code_of(refusal), message=record.index, detail=limits_of(refusal)
        )
    return replace(message, turn_begins=message.turn_begins and not answering)
