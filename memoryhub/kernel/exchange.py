"""The exchange: the newest slots of a thread as chat messages.

Pure. A payload that is a chat message goes as it came, unless that would leave a tool
call without its results or a result without its call, which chat APIs refuse: then
each of the group goes as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from memoryhub.kernel import lines
from memoryhub.kernel.json_text import dumped
from memoryhub.kernel.opened import Opened
from memoryhub.kernel.opened import text as text_at
from memoryhub.kernel.pages import FULL
from memoryhub.kernel.tools import OWN
from memoryhub.kernel.transcripts import ROLES


class Shown(NamedTuple):
    """A slot, at the level and length it is shown."""

    opened: Opened
    level: int = FULL
    cut: int | None = None
    recalled: bool = False


def messages(slots: Sequence[Shown]) -> list[str]:
    """The JSON text of one message for each slot."""
    texts = list[str]()
    for group in groups(slots):
        write = verbatim if _complete(group) else as_text
        texts += map(write, group)
    return texts


def groups(slots: Sequence[Shown]) -> Iterator[Sequence[Shown]]:
    """Each slot, calls of tools together with all results that follow at once."""
    start = 0
    while start < len(slots):
        end = start + 1
        if _calls(slots[start].opened) is not None:
            while end < len(slots) and _chat_role(slots[end].opened) == "tool":
                end += 1
        yield slots[start:end]
        start = end


def verbatim(shown: Shown) -> str:
    return dumped(shown.opened.content)


def as_text(shown: Shown) -> str:
    """A message with the text of a slot; what is no user's or assistant's is a line."""
    opened, level, cut, recalled = shown
    text = text_at(opened, level=level)
    role = "assistant" if opened.role == "assistant" else "user"
    if text is None or opened.role not in ("user", "assistant"):
        text = lines.line(opened, level=level, recalled=recalled, cut=cut)
    elif cut is not None:
        text = text[:cut] + lines.CUT
    return dumped({"role": role, "content": text})


def own_calls(opened: Opened) -> set[str] | None:
    """Ids of the calls of a message that calls our own tools and no others."""
    calls = _calls(opened)
    if not calls or any(_called(call) not in OWN for call in calls):
        return None
    ids = (call.get("id") for call in calls if isinstance(call, dict))
    return {call_id for call_id in ids if isinstance(call_id, str)}


def own_result(opened: Opened, ids: set[str]) -> bool:
    """Whether it answers one of our own tools, by name or by the call's id."""
    if _chat_role(opened) != "tool":
        return False
    return opened.content.get("name") in OWN or _answers(opened) in ids


def _complete(group: Sequence[Shown]) -> bool:
    """Whether the group can stand as it came."""
    if any(shown.level != FULL or shown.cut is not None for shown in group):
        return False
    first = group[0].opened
    calls = _calls(first)
    if calls is None:
        return _chat_role(first) in ("user", "assistant") and _plain(first.content)
    asked = [call.get("id") if isinstance(call, dict) else None for call in calls]
    answered = [_answers(shown.opened) for shown in group[1:]]
    if not all(isinstance(call_id, str) for call_id in asked):
        return False
    once = len(set(asked)) == len(asked) == len(answered)
    return once and set(asked) == set(answered)


def _chat_role(opened: Opened) -> str | None:
    """The role in a chat message, if it is one and the slot's role agrees."""
    content = opened.content
    sent = content.get("role") if isinstance(content, dict) else None
    role = ROLES[sent][0] if isinstance(sent, str) and sent in ROLES else None
    # What was not recorded as the system's must not speak as the system.
    if role == "system" or opened.role not in (None, role):
        return None
    return role


def _calls(opened: Opened) -> list[Any] | None:
    """The tool calls in a message of the assistant; None without."""
    if _chat_role(opened) != "assistant":
        return None
    calls = opened.content.get("tool_calls")
    return calls if isinstance(calls, list) and calls else None


def _plain(content: dict[str, Any]) -> bool:
    """Whether a message without calls is one that a chat API takes."""
    # The old single call is answered by name only, so it goes as text.
    calls = content.get("tool_calls") is not None or content.get("function_call")
    return isinstance(content.get("content"), str | list) and not calls


def _called(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _answers(opened: Opened) -> str | None:
    found = opened.content.get("tool_call_id")
    taken = isinstance(found, str) and opened.content["role"] == "tool"
    return (
        found
        if taken and isinstance(opened.content.get("content"), str | list)
        else None
    )
