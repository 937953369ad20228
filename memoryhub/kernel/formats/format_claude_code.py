"""The format `claude-code`: session files of Claude Code, JSON Lines.

Pure. Lines of the types `user` and `assistant` hold a message of Anthropic's each; all
others are the program's own records, and so is what it says in the name of one of the
two: summaries of compactions, meta lines, errors of the API. A line that a session
repeats when it is resumed comes once. What a sub-agent said is a thread of its own.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
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
    require_name,
    require_thread_name,
)
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text.strict_json import JsonRefusedError

__all__ = ["LIMITS", "fits", "read"]

_SPEAKING = ("user", "assistant")
#: Marks of lines that the program wrote for one of the two.
_OF_PROGRAM = ("isCompactSummary", "isMeta", "isApiErrorMessage")
#: Its own model, which no API has.
_SYNTHETIC = "<synthetic>"
#: So many lines back a repeated one is known, so that a file's length does not matter.
_LINES_KEPT = 65_536


def fits(value: Any) -> bool:
    """Return whether it may be a line of such a file, or a note in one."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return any(name in value for name in ("sessionId", "leafUuid", "snapshot"))


def read(found: Iterator[Record | Bad], options: Options) -> Iterator[Item]:
    """Yield a Line for each message; an answer's blocks come on lines of their own."""
    calls, answers, seen = Calls(), dict[str, Any](), OrderedDict[bytes, None]()
    for record in found:
        if isinstance(record, Bad):
            yield replace(record, run=None, message=record.run)
        elif (item := _read(record, options, calls, answers, seen)) is not None:
            yield item


def _read(
    record: Record,
    options: Options,
    calls: Calls,
    answers: dict[str, Any],
    seen: OrderedDict[bytes, None],
) -> Line | Bad | None:
    """A line's message; None for a note, and for a line of those `seen`.

    `answers` has each thread's newest one.
    """
    value = parse_line(record, LIMITS)
    if isinstance(value, Bad):
        return value
    if isinstance(value, dict) and value.get("type") not in _SPEAKING:
        return None
    try:
        thread = _thread(value, options)
        message = read_message(
            value.get("message"),
            thread=thread.name,
            calls=calls,
            agent_at=read_time(value.get("timestamp")),
        )
    except (InvalidError, JsonRefusedError) as refusal:
        return record.bad(
            code_of(refusal), message=record.index, detail=limits_of(refusal)
        )
    if _is_of_program(value, message) or _is_repeated(value, seen):
        return None
    if message.turn_begins:
        answer = message.content.get("id")
        again = answer is not None and answers.get(thread.name) == answer
        message, answers[thread.name] = replace(message, turn_begins=not again), answer
    return Line(thread=thread, message=message, index=record.index, place=record.place)


def _is_of_program(value: dict[str, Any], message: Message) -> bool:
    """Return whether the program wrote it; what a tool gave back it only passed on."""
    if message.role == "tool":
        return False
    marked = any(value.get(mark) is True for mark in _OF_PROGRAM)
    return marked or message.content.get("model") == _SYNTHETIC


def _is_repeated(value: dict[str, Any], seen: OrderedDict[bytes, None]) -> bool:
    """Return whether a line of that `uuid` was seen, and note it."""
    sent = value.get("uuid")
    if not isinstance(sent, str):
        return False
    # Digested, as it may be any length.
    key = hashlib.blake2b(sent.encode(), digest_size=16).digest()
    if key in seen:
        return True
    seen[key] = None
    if len(seen) > _LINES_KEPT:
        seen.popitem(last=False)
    return False


def _thread(value: Any, options: Options) -> Thread:
    """The session's thread, or that of a sub-agent in it."""
    if not isinstance(value, dict):
        raise InvalidError(code="object_expected")
    session = require_name(value.get("sessionId"), loc="sessionId")
    # A session's file has its name.
    names = [options.source] if options.source == session else [options.source, session]
    if value.get("isSidechain") is True:
        # Not among a person's own sessions, which are found by the source's name.
        agent = value.get("agentId")
        names = ["sidechain", *names, *([str(agent)] if agent else [])]
    return Thread(
        name=require_thread_name(":".join(names)),
        user_id=options.user_id,
        scope=Scope(agent_type=options.agent_type or options.source, session=session),
        labels={"source": options.source, "format": "claude-code"},
        format="claude-code",
    )
