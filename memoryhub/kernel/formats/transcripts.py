"""Transcripts: what an agent and its model said, as slots of a thread.

Pure. Messages are of any shape that is read; a slot's content is the whole object,
fields we do not know included, so that an export gives back what came.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.formats import records
from memoryhub.kernel.formats.records import Bad, Record, TextPosition
from memoryhub.kernel.messages import message, reading
from memoryhub.kernel.state.events import LabelValue, Role, RunFormat
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text import names, strict_json, times, user_ids
from memoryhub.kernel.text.strict_json import JsonRefusedError

MESSAGE = strict_json.CONTENT

#: What a tool is called when neither its result nor its call says so.
_NAMELESS = "tool"
_CALLS_KEPT = 4_096
#: What the name of a sender can't have.
_ODD = re.compile(r"[^A-Za-z0-9._:@-]")
_MAX_NAME = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, ready to become a slot."""

    role: Role
    type: str
    from_name: str
    to_name: str
    #: The message object whole, keys in their order.
    content: dict[str, Any]
    #: Its JSON text, as it is stored.
    text: bytes
    #: A model call begins right before it.
    turn_begins: bool
    agent_at: datetime | None = None
    #: It is the result of a tool call that was not seen.
    unknown_call: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Where messages of a file belong, as the file and the options say."""

    name: str
    #: None: the project's anonymous subject.
    user_id: str | None
    scope: Scope
    labels: dict[str, LabelValue]
    format: RunFormat
    trial: int | None = None
    reward: float | None = None
    #: What else was recorded of the run; any JSON.
    info: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A whole recorded run."""

    thread: Thread
    messages: tuple[Message, ...]
    index: int
    place: TextPosition
    #: Members of the record that we do not know and leave out.
    unknown_fields: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message that stands on a line of its own, and the thread it belongs to."""

    thread: Thread
    message: Message
    index: int
    place: TextPosition


#: What a file holds, in its order.
Item = Run | Line | Bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the operator says of the file; it goes before what the file says."""

    source: str
    thread: str | None = None
    user_id: str | None = None
    agent_type: str | None = None


@dataclass(slots=True)
class Calls:
    """Names of the tools called lately, by thread and call id.

    Results follow their calls closely; what is older than 4,096 calls is forgotten, so
    that a file's length does not matter. Ids are digested as they may be any length.
    """

    _names: OrderedDict[bytes, str] = field(default_factory=OrderedDict)

    def note(self, thread: str, call_id: str | None, name: str) -> None:
        """Note a call; one without an id goes by the name of its tool."""
        if call_id is not None:
            self._names[_key(thread, call_id)] = name
            if len(self._names) > _CALLS_KEPT:
                self._names.popitem(last=False)

    def find(self, thread: str, call_id: str | None) -> str | None:
        return None if call_id is None else self._names.get(_key(thread, call_id))


def read_message(
    content: Any, *, thread: str, calls: Calls, agent_at: datetime | None = None
) -> Message:
    """Return the slot that a message object makes, and its tool calls noted in `calls`.

    Raises InvalidError with the code of what is wrong: object_expected, missing or
    role; and JsonRefusedError for what is too large for one message.
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
    from_name, to_name = _route(spoken, role, thread, calls)
    seen = (calls.find(thread, each.id or each.name) for each in spoken.results)
    return Message(
        role=role,
        type=f"chat.{role}",
        from_name=from_name,
        to_name=to_name,
        content=content,
        text=text,
        turn_begins=role == "assistant",
        agent_at=agent_at,
        unknown_call=role == "tool" and None in seen,
    )


def parse_line(record: Record, limits: strict_json.Limits) -> Any:
    """Return the value of a line, or the Bad that it is."""
    try:
        return strict_json.parse(record.raw, limits)
    except JsonRefusedError as refusal:
        code, where = refusal.code, refusal.offset or 0
        if record.unfinished and code == "invalid_json" and records.cut_off(record.raw):
            code, where = "truncated", len(record.raw)
        found = limits_of(refusal)
        return record.bad(code, where, message=record.index, detail=found)


def _route(
    spoken: message.Message, role: Role, thread: str, calls: Calls
) -> tuple[str, str]:
    """Sender and receiver: of a call or result its tool, of several `tools`."""
    if role == "assistant":
        # What its own API did for it, or what is answered there, waits for no one.
        answered = {each.id for each in spoken.results}
        waiting = [
            each.name or _NAMELESS
            for each in spoken.calls
            if each.kind != "server" and each.id not in answered
        ]
        return "assistant", _tools(waiting) if waiting else "user"
    if role != "tool":
        return role, "assistant"
    found = (each.name or calls.find(thread, each.id) for each in spoken.results)
    return _tools([*{name for name in found if name}] or [_NAMELESS]), "assistant"


def _tools(named: Sequence[str]) -> str:
    return "tools" if len(named) > 1 else tool_name(named[0])


def tool_name(name: str) -> str:
    """Return the name of a tool as a sender or receiver, mended where it has to be.

    The message itself has it as it came.
    """
    return _ODD.sub("_", f"tool:{name}")[:_MAX_NAME]


def require_name(text: Any, *, loc: str) -> str:
    """Raise InvalidError unless a client may choose this name; it is never mended."""
    if not isinstance(text, str):
        raise InvalidError(code="type", loc=loc)
    if not names.valid(text):
        raise InvalidError(code="name", loc=loc)
    return text


def require_thread_name(text: Any) -> str:
    name = require_name(text, loc="thread")
    if names.reserved(name):
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
    """Parse an agent's clock as the API does."""
    return times.read(text, loc="at")


def code_of(refusal: InvalidError | JsonRefusedError) -> str:
    if isinstance(refusal, InvalidError):
        return refusal.invalid_code
    return refusal.code


def limits_of(refusal: Refusal) -> str:
    """Return the limits that a refusal names, in words."""
    return ", ".join(f"{name}: {limit}" for name, limit in refusal.detail.items())


def _key(thread: str, call_id: str) -> bytes:
    # A NUL can not stand in a name, so no two pairs make one text.
    text = f"{thread}\0{call_id}".encode()
    return hashlib.blake2b(text, digest_size=16).digest()
