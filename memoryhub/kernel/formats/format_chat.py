"""The format `chat`: JSON Lines, each line one message of some thread.

Pure. A line is a message object, with `thread`, `user_id` and `at` if it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.records import Bad, Record
from memoryhub.kernel.formats.transcripts import (
    MESSAGE,
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
    read_user_id,
    require_thread_name,
)
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = MESSAGE


def fits(value: Any) -> bool:
    """Return whether it may be a line: a message with its role."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def read(found: Iterator[Record | Bad], options: Options) -> Iterator[Item]:
    """Yield a Line for each line; a thread's subject is that of its first line.

    Once a line was bad, the result of a call that was not seen is bad as well: what is
    left has no result without its call.
    """
    calls, subjects, lost = Calls(), dict[str, str | None](), False
    for record in found:
        if isinstance(record, Bad):
            item: Item = replace(record, run=None, message=record.run)
        else:
            item = _read(record, options, calls, subjects)
            if lost and isinstance(item, Line) and item.message.unknown_call:
                item = record.bad("unknown_call", message=record.index)
        lost = lost or isinstance(item, Bad)
        yield item


def _read(
    record: Record, options: Options, calls: Calls, subjects: dict[str, str | None]
) -> Line | Bad:
    value = parse_line(record, LIMITS)
    if isinstance(value, Bad):
        return value
    try:
        thread = _thread(value, options, subjects)
        message = _message(value, thread, calls)
    except (InvalidError, JsonRefusedError) as refusal:
        return record.bad(
            code_of(refusal), message=record.index, detail=limits_of(refusal)
        )
    subjects.setdefault(thread.name, thread.user_id)
    return Line(thread=thread, message=message, index=record.index, place=record.place)


def _message(value: dict[str, Any], thread: Thread, calls: Calls) -> Message:
    at = value.get("at")
    return read_message(
        value,
        thread=thread.name,
        calls=calls,
        agent_at=None if at is None else read_time(at),
    )


def _thread(value: Any, options: Options, subjects: dict[str, str | None]) -> Thread:
    """The thread of a line. Raises InvalidError.

    A line that names another subject than the thread's first is refused: what is said
    of one person must not be kept, shown and erased as another's.
    """
    if not isinstance(value, dict):
        raise InvalidError(code="object_expected")
    sent = value.get("thread")
    default = options.thread or options.source
    name = require_thread_name(default if sent is None else sent)
    own = read_user_id(value.get("user_id"))
    user_id = options.user_id or subjects.get(name, own)
    if not options.user_id and own not in (None, user_id):
        raise InvalidError(code="subject_conflict", loc="user_id")
    return Thread(
        name=name,
        user_id=user_id,
        scope=Scope(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "chat"},
        format="chat",
    )
