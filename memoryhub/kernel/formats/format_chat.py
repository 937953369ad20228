"""The format `chat`: JSON Lines, each line one message of some thread.

Pure. A line is a message object, with `thread`, `user_id` and `at` if it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import records
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
    read_message,
    read_time,
    read_user_id,
    require_thread_name,
)
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = MESSAGE


def read(found: Iterator[Record | Bad], options: Options) -> Iterator[Item]:
    """Yield a Line for each line; a thread's subject is that of its first line."""
    calls, subjects = Calls(), dict[str, str | None]()
    for record in found:
        if isinstance(record, Bad):
            yield replace(record, run=None, message=record.run)
        else:
            yield _read(record, options, calls, subjects)


def _read(
    record: Record, options: Options, calls: Calls, subjects: dict[str, str | None]
) -> Line | Bad:
    try:
        value = strict_json.parse(record.raw, LIMITS)
    except JsonRefusedError as refusal:
        code, where = refusal.code, refusal.offset or 0
        if record.unfinished and code == "invalid_json" and records.cut_off(record.raw):
            code, where = "truncated", len(record.raw)
        return record.bad(code, where, message=record.index)
    try:
        thread = _thread(value, options, subjects)
        message = _message(value, thread, calls)
    except (InvalidError, JsonRefusedError) as refusal:
        return record.bad(code_of(refusal), message=record.index)
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
