"""The format `tuning`: lines for fine-tuning, each a whole conversation.

Pure. A line is `{messages: [messages]}`, with `tools` and the like beside. It may stand
on several lines of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import format_runs
from memoryhub.kernel.formats.records import Bad, Record
from memoryhub.kernel.formats.transcripts import (
    Item,
    Options,
    Run,
    Thread,
    require_thread_name,
)
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = format_runs.LIMITS
MESSAGES = "messages"
_CONTENTS = frozenset({MESSAGES, "tools", "functions"})


def read(found: Iterator[Record | Bad], options: Options) -> Iterator[Item]:
    """Yield a Run for each conversation, named by its place in the file."""
    return format_runs.read_each(found, lambda record: _read(record, options))


def _read(record: Record, options: Options) -> Run | Bad:
    try:
        value = strict_json.parse(record.raw, LIMITS, contents=_CONTENTS)
    except JsonRefusedError as refusal:
        return format_runs.blame(record, refusal, MESSAGES)
    try:
        thread, contents = _thread(record, value, options), _messages(value)
    except InvalidError as refusal:
        return record.bad(refusal.invalid_code, run=record.index)
    messages = format_runs.read_messages(record, contents, thread, MESSAGES)
    if isinstance(messages, Bad):
        return messages
    return Run(thread=thread, messages=messages, index=record.index, place=record.place)


def _messages(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        raise InvalidError(code="object_expected")
    messages = value.get(MESSAGES)
    if not isinstance(messages, list):
        raise InvalidError(code="missing", loc=MESSAGES)
    if not messages:
        raise InvalidError(code="value", loc=MESSAGES)
    return messages


def _thread(record: Record, value: Any, options: Options) -> Thread:
    beside = {name: value[name] for name in value if name != MESSAGES}
    return Thread(
        name=require_thread_name(f"{options.source}:{record.index}"),
        user_id=options.user_id,
        scope=Scope(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "tuning"},
        format="tuning",
        info=beside or None,
    )
