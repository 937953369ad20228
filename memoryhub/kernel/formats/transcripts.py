"""Transcripts: messages of an agent and its model, as slots of a thread.

Pure. Messages may have any shape that `reading` knows. A slot's content is the whole
object, unknown fields included, so that an export returns the original.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.formats import records
from memoryhub.kernel.formats.records import BadRecord, FileRecord, TextPosition
from memoryhub.kernel.knowledge.facts import NewFact
from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.message import Message
from memoryhub.kernel.state.events import LabelValue, Role, RunFormat
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import names, strict_json, times, user_ids
from memoryhub.kernel.text.strict_json import JsonRefusedError

MESSAGE = strict_json.CONTENT

#: Name of a tool if neither its result nor its call has one.
_NAMELESS = "tool"
_CALLS_KEPT = 4_096
#: Characters that a sender's name can't have.
_ODD = re.compile(r"[^A-Za-z0-9._:@-]")
_MAX_NAME = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMessage:
    """One message, ready to become a slot."""

    role: Role
    type: str
    from_name: str
    to_name: str
    #: The whole message object, keys in their order.
    content: dict[str, Any]
    #: JSON text of the content, as it is stored.
    text: bytes
    #: The content as it was read: reading is a tenth of an import.
    spoken: Message
    #: A model call begins right before the message.
    turn_begins: bool
    agent_at: datetime | None = None
    #: The message is the result of a tool call that was not seen.
    unknown_call: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedThread:
    """Thread for messages of a file, named by the file and the options."""

    name: str
    #: None: the project's anonymous subject.
    user_id: str | None
    scope: ScopeLabels
    labels: dict[str, LabelValue]
    format: RunFormat
    trial: int | None = None
    reward: float | None = None
    #: Other recorded data of the run; any JSON.
    info: Any = None
    #: The data may differ in a later file of the same thread, as a title may.
    can_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A whole recorded run."""

    thread: ImportedThread
    messages: tuple[ImportedMessage, ...]
    index: int
    place: TextPosition
    #: Number of unknown members of the record, which are left out.
    unknown_fields: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedLine:
    """One message on a line of its own, and its thread."""

    thread: ImportedThread
    message: ImportedMessage
    index: int
    place: TextPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedBlock:
    """A block of a subject, written unless the subject has or had the block."""

    user_id: str | None
    name: str
    text: str
    description: str
    read_only: bool
    index: int
    place: TextPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedClaim:
    """A claim about a subject, of a predicate that has several values at once."""

    user_id: str | None
    fact: NewFact
    index: int
    place: TextPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Parts of a file that have no place here: their number, by the file's names."""

    parts: Mapping[str, int]


#: Knowledge about a subject, outside all threads.
KnowledgeItem = ImportedBlock | ImportedClaim
#: An item of a file, in the file's order.
Item = ImportedRun | ImportedLine | KnowledgeItem | Omission | BadRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Values given by the operator, which override those of the file."""

    source: str
    thread: str | None = None
    user_id: str | None = None
    agent_type: str | None = None


@dataclass(slots=True)
class Calls:
    """Names of the tools called lately, by thread and call id.

    Results follow their calls closely. Calls older than the last 4,096 are forgotten,
    so that memory stays bounded for a file of any length. Ids are digested as they may
    be of any length.
    """

    _names: OrderedDict[bytes, str] = field(default_factory=OrderedDict)

    def note(self, thread: str, call_id: str | None, name: str) -> None:
        """Record a call under its id; nothing without an id."""
        if call_id is not None:
            self._names[_build_key(thread, call_id)] = name
            if len(self._names) > _CALLS_KEPT:
                self._names.popitem(last=False)

    def find(self, thread: str, call_id: str | None) -> str | None:
        return None if call_id is None else self._names.get(_build_key(thread, call_id))


def read_message(
    content: Any, *, thread: str, calls: Calls, agent_at: datetime | None = None
) -> ImportedMessage:
    """Build the slot of a message object, and record its tool calls in `calls`.

    Raises InvalidError with the code of what is wrong: object_expected, missing or
    role. Raises JsonRefusedError for what is too large for one message.
    """
    if not isinstance(content, dict):
        raise InvalidError(code="object_expected")
    text = strict_json.check(content, MESSAGE)
    spoken = reading.read(content)
    role = spoken.speaker
    if role is None:
        code = "missing" if content.get("role") is None else "role"
        raise InvalidError(code=code, loc="role")
    for call in spoken.calls:
        calls.note(thread, call.id or call.name, call.name or _NAMELESS)
    from_name, to_name = _find_route(spoken, role, thread, calls)
    seen = (calls.find(thread, each.id or each.name) for each in spoken.results)
    return ImportedMessage(
        role=role,
        type=f"chat.{role}",
        from_name=from_name,
        to_name=to_name,
        content=content,
        text=text,
        spoken=spoken,
        turn_begins=role == "assistant",
        agent_at=agent_at,
        unknown_call=role == "tool" and None in seen,
    )


def parse_line(record: FileRecord, limits: strict_json.JsonLimits) -> Any:
    """Return the value of a line, or a BadRecord if the line can not be parsed."""
    try:
        return strict_json.parse(record.raw, limits)
    except JsonRefusedError as refusal:
        code, where = refusal.code, refusal.offset or 0
        if (
            record.unfinished
            and code == "invalid_json"
            and records.is_cut_off(record.raw)
        ):
            code, where = "truncated", len(record.raw)
        found = render_limits(refusal)
        return record.build_bad(code, where, message=record.index, detail=found)


def parse_record(record: FileRecord, limits: strict_json.JsonLimits) -> Any:
    """Return the value of a record, or a BadRecord, which is final for broken JSON."""
    value = parse_line(record, limits)
    if isinstance(value, BadRecord):
        return replace(value, final=value.code in ("invalid_json", "truncated"))
    return value


def _find_route(
    spoken: Message, role: Role, thread: str, calls: Calls
) -> tuple[str, str]:
    """Return sender and receiver: the tool of a call or result, `tools` for several."""
    if role == "assistant":
        # Calls of the API's own tools, or calls already answered, wait for no one.
        answered = {each.id for each in spoken.results}
        waiting = [
            each.name or _NAMELESS
            for each in spoken.calls
            if each.kind != "server" and each.id not in answered
        ]
        return "assistant", _name_tools(waiting) if waiting else "user"
    if role != "tool":
        return role, "assistant"
    found = (each.name or calls.find(thread, each.id) for each in spoken.results)
    return _name_tools([*{name for name in found if name}] or [_NAMELESS]), "assistant"


def _name_tools(named: Sequence[str]) -> str:
    return "tools" if len(named) > 1 else build_tool_name(named[0])


def build_tool_name(name: str) -> str:
    """Return a tool's name as a sender or receiver, with odd characters replaced.

    The message itself keeps the original name.
    """
    return _ODD.sub("_", f"tool:{name}")[:_MAX_NAME]


def is_empty(value: Any) -> bool:
    """Return whether a member of a file's record holds nothing: null, false, ``""``."""
    return value in (None, False, "", [], {})


def require_name(text: Any, *, loc: str) -> str:
    """Return the name unchanged. Raise InvalidError unless a client may choose it."""
    if not isinstance(text, str):
        raise InvalidError(code="type", loc=loc)
    if not names.is_valid(text):
        raise InvalidError(code="name", loc=loc)
    return text


def require_thread_name(text: Any) -> str:
    name = require_name(text, loc="thread")
    if names.is_reserved(name):
        raise InvalidError(code="reserved_name", loc="thread")
    return name


def read_user_id(value: Any) -> str | None:
    """Parse a subject's id; null and absent are the anonymous subject."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidError(code="type", loc="user_id")
    return user_ids.require(value)


def read_time(text: Any) -> datetime:
    """Parse an agent's time as the API does."""
    return times.read(text, loc="at")


def get_code(refusal: InvalidError | JsonRefusedError) -> str:
    if isinstance(refusal, InvalidError):
        return refusal.invalid_code
    return refusal.code


def render_limits(refusal: Refusal) -> str:
    """Render the limits that a refusal names, in words."""
    return ", ".join(f"{name}: {limit}" for name, limit in refusal.detail.items())


def _build_key(thread: str, call_id: str) -> bytes:
    # A name can not contain a NUL, so no two pairs make one text.
    text = f"{thread}\0{call_id}".encode()
    return hashlib.blake2b(text, digest_size=16).digest()
