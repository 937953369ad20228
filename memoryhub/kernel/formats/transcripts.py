"""Transcripts: what an agent and its model said, as slots of a thread.

Pure. Messages are those of OpenAI's chat completions; a message's content is the whole
message object, fields we do not know included, so that an export gives back what came.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.records import Bad, TextPosition
from memoryhub.kernel.state.events import LabelValue, Role
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text import names, strict_json, user_ids
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.kernel.text.times import YEARS

MESSAGE = strict_json.CONTENT

#: What a tool is called when neither its result nor its call says so.
_NAMELESS = "tool"
_CALLS_KEPT = 4_096
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII
)

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
    format: Literal["runs", "chat"]
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

    Raises InvalidError with the code of what is wrong: object_expected, missing, role,
    type or name; and JsonRefusedError for what is too large for one message.
    """
    if not isinstance(content, dict):
        raise InvalidError(code="object_expected")
    text = strict_json.check(content, MESSAGE)
    sent = content.get("role")
    if sent is None:
        raise InvalidError(code="missing", loc="role")
    if not isinstance(sent, str) or sent not in ROLES:
        raise InvalidError(code="role", loc="role")
    role, type_ = ROLES[sent]
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


def _route(
    role: Role, content: dict[str, Any], thread: str, calls: Calls
) -> tuple[str, str, bool]:
    """Sender, receiver, and whether it answers a call that was not seen."""
    if role == "assistant":
        return "assistant", _callee(content, thread, calls), False
    if role != "tool":
        return role, "assistant", False
    called = calls.find(thread, content.get("tool_call_id"))
    # A result of the old function calling names its function and has no call id.
    unknown = called is None and content["role"] == "tool"
    given = content.get("name")
    name = given if isinstance(given, str) and given else called or _NAMELESS
    return tool_name(name), "assistant", unknown


def _callee(content: dict[str, Any], thread: str, calls: Calls) -> str:
    """Whom the assistant speaks to: the user, the tool it calls, or `tools`."""
    callees = []
    for call in _tool_calls(content):
        name = _called(call)
        callees.append(tool_name(name))
        calls.note(thread, call.get("id"), name)
    if len(callees) > 1:
        return "tools"
    return callees[0] if callees else "user"


def _tool_calls(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls in a message; the old single `function_call` is one."""
    listed = content.get("tool_calls") or []
    single = content.get("function_call")
    if not isinstance(listed, list):
        raise InvalidError(code="type", loc="tool_calls")
    if not listed and single is not None:
        listed = [{"function": single}]
    if not all(isinstance(call, dict) for call in listed):
        raise InvalidError(code="type", loc="tool_calls")
    return listed


def _called(call: dict[str, Any]) -> str:
    for kind in ("function", "custom"):
        inner = call.get(kind)
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            return inner["name"] or _NAMELESS
    return _NAMELESS


def tool_name(name: str) -> str:
    """Return the name of a tool as a sender or receiver."""
    return require_name(f"tool:{name}", loc="name")


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
    """Parse an agent's clock: RFC 3339 with offset, of the years 1970 to 2200."""
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        raise InvalidError(code="time", loc="at")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidError(code="time", loc="at") from None
    # The first and last years a datetime can hold do not bear a change of zone.
    if YEARS.start - 1 <= moment.year <= YEARS.stop:
        moment = moment.astimezone(UTC)
    if moment.year not in YEARS:
        raise InvalidError(code="time_range", loc="at")
    return moment


def code_of(refusal: InvalidError | JsonRefusedError) -> str:
    if isinstance(refusal, InvalidError):
        return refusal.invalid_code
    return refusal.code


def _key(thread: str, call_id: str) -> bytes:
    # A NUL can not stand in a name, so no two pairs make one text.
    text = f"{thread}\0{call_id}".encode()
    return hashlib.blake2b(text, digest_size=16).digest()
