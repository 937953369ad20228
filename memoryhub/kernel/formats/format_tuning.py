"""The format `tuning`: lines for fine-tuning, each a whole conversation.

Pure. A line is `{messages: [messages]}`, with `tools` and the like beside. A line may
extend over several lines of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import format_runs, format_zep
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import (
    ImportedRun,
    ImportedThread,
    ImportOptions,
    Item,
    require_thread_name,
)
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

LIMITS = format_runs.LIMITS
MESSAGES = "messages"
_CONTENTS = frozenset({MESSAGES, "tools", "functions"})


def can_be_line(value: Any) -> bool:
    """Return whether a value may be a line, and no agent file or page of a store."""
    mine = isinstance(value, dict) and MESSAGES in value
    return mine and "core_memory" not in value and not format_zep.can_be_file(value)


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedRun for each conversation, named by its index in the file."""
    return format_runs.read_each(
        found, lambda record: _read_conversation(record, options)
    )


def _read_conversation(
    record: FileRecord, options: ImportOptions
) -> ImportedRun | BadRecord:
    try:
        value = strict_json.parse(record.raw, LIMITS, contents=_CONTENTS)
    except JsonRefusedError as refusal:
        return format_runs.blame(record, refusal, MESSAGES)
    try:
        thread, contents = (
            _build_thread(record, value, options),
            _require_messages(value),
        )
    except InvalidError as refusal:
        return record.build_bad(refusal.invalid_code, run=record.index)
    messages = format_runs.read_messages(record, contents, thread, MESSAGES)
    if isinstance(messages, BadRecord):
        return messages
    return ImportedRun(
        thread=thread, messages=messages, index=record.index, place=record.place
    )


def _require_messages(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        raise InvalidError(code="object_expected")
    messages = value.get(MESSAGES)
    if not isinstance(messages, list):
        raise InvalidError(code="missing", loc=MESSAGES)
    if not messages:
        raise InvalidError(code="value", loc=MESSAGES)
    return messages


def _build_thread(
    record: FileRecord, value: Any, options: ImportOptions
) -> ImportedThread:
    beside = {name: value[name] for name in value if name != MESSAGES}
    return ImportedThread(
        name=require_thread_name(f"{options.source}:{record.index}"),
        user_id=options.user_id,
        scope=ScopeLabels(agent_type=options.agent_type or options.source),
        labels={"source": options.source, "format": "tuning"},
        format="tuning",
        info=beside or None,
    )
