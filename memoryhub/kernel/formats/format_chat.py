"""The format `chat`: JSON Lines, each line one message of some thread.

Pure. A line is a message object, with `thread`, `user_id` and `at` if it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import (
    MESSAGE,
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
    read_user_id,
    render_limits,
    require_thread_name,
)
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = MESSAGE


def can_be_line(value: Any) -> bool:
    """Return whether a value may be a line: a message with its role."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedLine for each line; a thread's first line sets its subject.

    After a bad line, a result whose call was not seen is bad as well: the remaining
    messages have no result without its call.
    """
    calls, subjects, lost = Calls(), dict[str, str | None](), False
    for record in found:
        if isinstance(record, BadRecord):
            item: Item = replace(record, run=None, message=record.run)
        else:
            item = _read_record(record, options, calls, subjects)
            if lost and isinstance(item, ImportedLine) and item.message.unknown_call:
                item = record.build_bad("unknown_call", message=record.index)
        lost = lost or isinstance(item, BadRecord)
        yield item


def _read_record(
    record: FileRecord,
    options: ImportOptions,
    calls: Calls,
    subjects: dict[str, str | None],
) -> ImportedLine | BadRecord:
    value = parse_line(record, LIMITS)
    if isinstance(value, BadRecord):
        return value
    try:
        thread = _build_thread(value, options, subjects)
        message = _build_message(value, thread, calls)
    except (InvalidError, JsonRefusedError) as refusal:
        return record.build_bad(
            get_code(refusal), message=record.index, detail=render_limits(refusal)
        )
    subjects.setdefault(thread.name, thread.user_id)
    return ImportedLine(
        thread=thread, message=message, index=record.index, place=record.place
    )


def _build_message(
    value: dict[str, Any], thread: ImportedThread, calls: Calls
) -> ImportedMessage:
    at = value.get("at")
    return read_message(
        value,
        thread=thread.name,
        calls=calls,
        agent_at=None if at is None else read_time(at),
    )


def _build_thread(
    value: Any, options: ImportOptions, subjects: dict[str, str | None]
) -> ImportedThread:
    """Build the thread of a line. Raise InvalidError.

    A line that names another subject than the thread's first line is refused: messages
    about one person must not be stored, shown and erased as another's.
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
    return ImportedThread(
        name=name,
        user_id=user_id,
        scope=ScopeLabels(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "chat"},
        format="chat",
    )
