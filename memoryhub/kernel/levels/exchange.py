"""The exchange: a slot as a chat message, and which tools it calls or answers. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from memoryhub.kernel.formats.transcripts import ROLES
from memoryhub.kernel.levels import lines, message_shapes
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.opened import text as text_at
from memoryhub.kernel.levels.tools import OWN
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import dumped


class Shown(NamedTuple):
    """A slot, at the level and length it is shown."""

    opened: Opened
    level: int = FULL
    cut: int | None = None
    recalled: bool = False
    part: tuple[int, int] | None = None


def verbatim(shown: Shown) -> str:
    return dumped(shown.opened.content)


def as_text(shown: Shown) -> str:
    """Return a message with the slot's text.

    A slot that is neither a user's nor an assistant's becomes a line.
    """
    opened, level, cut, recalled, part = shown
    text = text_at(opened, level=level)
    role = "assistant" if opened.role == "assistant" else "user"
    if text is None or part or opened.role not in ("user", "assistant"):
        text = lines.line(opened, level=level, recalled=recalled, cut=cut, part=part)
    elif cut is not None:
        text = text[:cut] + lines.CUT
    return dumped({"role": role, "content": text})


def calls_tools(opened: Opened) -> bool:
    """Whether it is a message that calls tools, of ours or others."""
    return bool(calls_of(_as_chat(opened)))


def own_calls(opened: Opened) -> set[str] | None:
    """Return the ids of a message's calls if it calls our own tools and no others."""
    calls = calls_of(_as_chat(opened))
    if not calls or any(called_name(call) not in OWN for call in calls):
        return None
    ids = (call.get("id") for call in calls if isinstance(call, dict))
    return {call_id for call_id in ids if isinstance(call_id, str)}


def calls_only_ours(opened: Opened) -> tuple[str, ...]:
    """Return the ids of its calls, if it calls no other tools and has no text."""
    calls, spoken = own_calls(opened), _as_chat(opened)
    return tuple(sorted(calls)) if calls and not spoken.content.get("content") else ()


def answered_call(opened: Opened) -> str | None:
    """Return the id of the call that a tool's message answers."""
    opened = _as_chat(opened)
    return result_of(opened) if chat_role(opened) == "tool" else None


def own_result(opened: Opened, ids: set[str]) -> bool:
    """Return whether a slot answers one of our own tools, by name or by call id."""
    opened = _as_chat(opened)
    if chat_role(opened) != "tool":
        return False
    return opened.content.get("name") in OWN or result_of(opened) in ids


def _as_chat(opened: Opened) -> Opened:
    """With the one message of chat completions that it is, if it came otherwise."""
    messages = message_shapes.read(opened.content)
    if not messages or len(messages) > 1 or messages[0] is opened.content:
        return opened
    return replace(opened, content=messages[0])


def chat_role(opened: Opened) -> str | None:
    """Return the role in a chat message, if it is one and the slot's role agrees."""
    content = opened.content
    sent = content.get("role") if isinstance(content, dict) else None
    role = ROLES[sent][0] if isinstance(sent, str) and sent in ROLES else None
    # What was not recorded as the system's must not speak as the system.
    if role == "system" or opened.role not in (None, role):
        return None
    return role


def calls_of(opened: Opened) -> list[Any] | None:
    """Return the tool calls of an assistant's message; None without any."""
    if chat_role(opened) != "assistant":
        return None
    calls = opened.content.get("tool_calls")
    return calls if isinstance(calls, list) and calls else None


def plain_content(content: dict[str, Any]) -> bool:
    """Return whether a chat API takes this content of a message without calls."""
    # The old single call is answered by name only, so it goes as text.
    calls = content.get("tool_calls") is not None or content.get("function_call")
    return isinstance(content.get("content"), str | list) and not calls


def called_name(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def result_of(opened: Opened) -> str | None:
    if not isinstance(opened.content, dict):
        return None
    found = opened.content.get("tool_call_id")
    taken = isinstance(found, str) and opened.content["role"] == "tool"
    return (
        found
        if taken and isinstance(opened.content.get("content"), str | list)
        else None
    )
