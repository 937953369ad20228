"""The format `claude-code`: session files of Claude Code, JSON Lines.

Pure. Each line of the types `user` and `assistant` holds an Anthropic message. All
other lines are the program's own records. So are lines that the program writes in the
name of one of the two: summaries of compactions, meta lines, errors of the API. A line
that a resumed session repeats is read once. A sub-agent's messages form a separate
thread.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
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
    require_name,
    require_thread_name,
)
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text.strict_json import JsonRefusedError

__all__ = ["LIMITS", "can_be_line", "read"]

_SPEAKING = ("user", "assistant")
#: Members that mark a line as the program's, written in a user's or assistant's name.
_OF_PROGRAM = ("isCompactSummary", "isMeta", "isApiErrorMessage")
#: Model name of the program itself, which no API has.
_SYNTHETIC = "<synthetic>"
#: Number of past lines in which a repeated line is recognised, so that memory stays
#: bounded for a file of any length.
_LINES_KEPT = 65_536


def can_be_line(value: Any) -> bool:
    """Return whether a value may be a line of a session file, or a note in one."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return any(name in value for name in ("sessionId", "leafUuid", "snapshot"))


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedLine for each message; answer blocks have their own lines."""
    calls, answers, seen = Calls(), dict[str, Any](), OrderedDict[bytes, None]()
    for record in found:
        if isinstance(record, BadRecord):
            yield replace(record, run=None, message=record.run)
        elif (item := _read_record(record, options, calls, answers, seen)) is not None:
            yield item


def _read_record(
    record: FileRecord,
    options: ImportOptions,
    calls: Calls,
    answers: dict[str, Any],
    seen: OrderedDict[bytes, None],
) -> ImportedLine | BadRecord | None:
    """Return the message of a line; None for a note, and for a line in `seen`.

    `answers` has the id of each thread's newest answer.
    """
    value = parse_line(record, LIMITS)
    if isinstance(value, BadRecord):
        return value
    if isinstance(value, dict) and value.get("type") not in _SPEAKING:
        return None
    try:
        thread = _build_thread(value, options)
        message = read_message(
            value.get("message"),
            thread=thread.name,
            calls=calls,
            agent_at=read_time(value.get("timestamp")),
        )
    except (InvalidError, JsonRefusedError) as refusal:
        return record.build_bad(
            get_code(refusal), message=record.index, detail=render_limits(refusal)
        )
    if _is_of_program(value, message) or _is_repeated(value, seen):
        return None
    if message.turn_begins:
        answer = message.content.get("id")
        again = answer is not None and answers.get(thread.name) == answer
        message, answers[thread.name] = replace(message, turn_begins=not again), answer
    return ImportedLine(
        thread=thread, message=message, index=record.index, place=record.place
    )


def _is_of_program(value: dict[str, Any], message: ImportedMessage) -> bool:
    """Return whether the program wrote a message; it only passes on tool results."""
    if message.role == "tool":
        return False
    marked = any(value.get(mark) is True for mark in _OF_PROGRAM)
    return marked or message.content.get("model") == _SYNTHETIC


def _is_repeated(value: dict[str, Any], seen: OrderedDict[bytes, None]) -> bool:
    """Return whether a line of this `uuid` was seen, and record the uuid."""
    sent = value.get("uuid")
    if not isinstance(sent, str):
        return False
    # The uuid is digested, as it may be of any length.
    key = hashlib.blake2b(sent.encode(), digest_size=16).digest()
    if key in seen:
        return True
    seen[key] = None
    if len(seen) > _LINES_KEPT:
        seen.popitem(last=False)
    return False


def _build_thread(value: Any, options: ImportOptions) -> ImportedThread:
    """Build the thread of the session, or of a sub-agent in it."""
    if not isinstance(value, dict):
        raise InvalidError(code="object_expected")
    session = require_name(value.get("sessionId"), loc="sessionId")
    # A session's file is usually named after the session.
    names = [options.source] if options.source == session else [options.source, session]
    if value.get("isSidechain") is True:
        # The prefix keeps sub-agents apart from a person's own sessions, which are
        # found by the source's name.
        agent = value.get("agentId")
        names = ["sidechain", *names, *([str(agent)] if agent else [])]
    return ImportedThread(
        name=require_thread_name(":".join(names)),
        user_id=options.user_id,
        scope=ScopeLabels(
            agent_type=options.agent_type or options.source, session=session
        ),
        labels={"source": options.source, "format": "claude-code"},
        format="claude-code",
    )
