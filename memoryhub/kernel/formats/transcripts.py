"""Transcripts: what an agent and its model said, as slots of a thread.

Pure. Messages are those of chat completions and of Anthropic, and items of Responses; a
slot's content is the whole object, fields we do not know included, so that an export
gives back what came.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import records
from memoryhub.kernel.formats.records import Bad, Record, TextPosition
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

#: The role in the file to the role and type of the slot.
ROLES: dict[str, tuple[Role, str]] = {
    "system": ("system", "chat.system"),
    "developer": ("system", "chat.system"),
    "user": ("user", "chat.user"),
    "assistant": ("assistant", "chat.assistant"),
    "tool": ("tool", "chat.tool"),
    "function": ("tool", "chat.tool"),
}


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

    def note(self, thread: str, call_id: Any, name: str) -> None:
        if isinstance(call_id, str):
            self._names[_key(thread, call_id)] = name
            if len(self._names) > _CALLS_KEPT:
                self._names.popitem(last=False)

    def find(self, thread: str, call_id: Any) -> str | None:
        if not isinstance(call_id, str):
            return None
        return self._names.get(_key(thread, call_id))


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
    role, type_ = _role(content)
    from_name, to_name, unknown_call = _route(role, content, thread, calls)
    return Message(
        role=role,
        type=type_,
        from_name=from_name,
        to_name=to_name,
        content=content,
        text=text,
        turn_begins=role == "assistant",
        agent_at=agent_at,
        unknown_call=unknown_call,
    )


def parse_line(record: Record, limits: strict_json.Limits) -> Any:
    """Return the value of a line, or the Bad that it is."""
    try:
        return strict_json.parse(record.raw, limits)
    except JsonRefusedError as refusal:
        code, where = refusal.code, refusal.offset or 0
        if record.unfinished and code == "invalid_json" and records.cut_off(record.raw):
            code, where = "truncated", len(record.raw)
        return record.bad(code, where, message=record.index)


def _role(content: dict[str, Any]) -> tuple[Role, str]:
    """Role and type of the slot: as the message says, else as the item's type does."""
    sent, kind = content.get("role"), content.get("type")
    if sent is None and isinstance(kind, str):
        if kind.endswith("_output"):
            return ROLES["tool"]
        if kind == "reasoning" or kind.endswith("_call"):
            return ROLES["assistant"]
    if sent is None:
        raise InvalidError(code="missing", loc="role")
    if not isinstance(sent, str) or sent not in ROLES:
        raise InvalidError(code="role", loc="role")
    if sent == "user" and _only_results(content):
        return ROLES["tool"]
    return ROLES[sent]


def _only_results(content: dict[str, Any]) -> bool:
    """Whether it is Anthropic's message of tools, which has the user's role."""
    parts = content.get("content")
    return (
        isinstance(parts, list)
        and bool(parts)
        and all(
            isinstance(part, dict) and part.get("type") == "tool_result"
            for part in parts
        )
    )


def _route(
    role: Role, content: dict[str, Any], thread: str, calls: Calls
) -> tuple[str, str, bool]:
    """Sender, receiver, and whether it answers a call that was not seen."""
    if role == "assistant":
        return "assistant", _callee(content, thread, calls), False
    if role != "tool":
        return role, "assistant", False
    answered = _answered(content)
    found = [calls.find(thread, each) for each in answered]
    known = [name for name in found if name]
    # A result of the old function calling names its function and has no call id.
    unknown = content.get("role") != "function" and len(known) < len(answered)
    given = content.get("name")
    if isinstance(given, str) and given:
        name = given
    elif len(set(known)) > 1:
        return "tools", "assistant", unknown
    else:
        name = known[0] if known else _NAMELESS
    return tool_name(name), "assistant", unknown


def _answered(content: dict[str, Any]) -> list[Any]:
    """Ids of the calls whose results a message brings."""
    parts = content.get("content")
    if content.get("role") == "user" and isinstance(parts, list):
        return [part.get("tool_use_id") for part in parts]  # all of them are results
    return [content.get("tool_call_id", content.get("call_id"))]


def _callee(content: dict[str, Any], thread: str, calls: Calls) -> str:
    """Whom the assistant speaks to: the user, the tool it calls, or `tools`."""
    callees = []
    for call_id, name in _tool_calls(content):
        callees.append(tool_name(name))
        calls.note(thread, call_id, name)
    if len(callees) > 1:
        return "tools"
    return callees[0] if callees else "user"


def _tool_calls(content: dict[str, Any]) -> list[tuple[Any, str]]:
    """Id and name of each call in a message; the old single `function_call` is one.

    What looks like none calls nothing: the API takes such a message, too.
    """
    listed, parts = content.get("tool_calls"), content.get("content")
    found: list[tuple[Any, Any]] = []
    for call in listed if isinstance(listed, list) else []:
        if isinstance(call, dict):
            inner = call.get("function") or call.get("custom")
            found.append((call.get("id"), inner))
    single = content.get("function_call")
    if not found and isinstance(single, dict):
        found.append((None, single))
    found += [
        (part.get("id"), part)
        for part in (parts if isinstance(parts, list) else [])
        if isinstance(part, dict) and part.get("type") == "tool_use"
    ]
    if content.get("type") in ("function_call", "custom_tool_call"):
        found.append((content.get("call_id"), content))
    return [(call_id, _called(named)) for call_id, named in found]


def _called(named: Any) -> str:
    name = named.get("name") if isinstance(named, dict) else None
    return name if isinstance(name, str) and name else _NAMELESS


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


def _key(thread: str, call_id: str) -> bytes:
    # A NUL can not stand in a name, so no two pairs make one text.
    text = f"{thread}\0{call_id}".encode()
    return hashlib.blake2b(text, digest_size=16).digest()
