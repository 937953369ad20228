"""Exchanges: what a user said and what followed, as messages of chat completions.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from memoryhub.kernel.levels import message_shapes


class ToolCall(NamedTuple):
    """A tool that the assistant called."""

    name: str
    #: As it was sent: text of JSON mostly, or an object.
    arguments: Any
    #: None if it has none that pairs it with a result.
    call_id: str | None


class ToolUse(NamedTuple):
    """A call to be remembered; `result` None if there is none."""

    name: str
    arguments: str
    result: str | None


def messages_of(
    question: str, answer: str, uses: Sequence[ToolUse] = ()
) -> list[dict[str, Any]]:
    """Return the messages of an exchange: question, calls, results, answer."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    if uses:
        calls = [
            {
                "id": f"call-{n}",
                "type": "function",
                "function": {"name": use.name, "arguments": use.arguments},
            }
            for n, use in enumerate(uses, 1)
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    messages += [
        {"role": "tool", "tool_call_id": f"call-{n}", "content": use.result}
        for n, use in enumerate(uses, 1)
        if use.result is not None
    ]
    return [*messages, {"role": "assistant", "content": answer}]


def speaks(content: Any) -> bool:
    """Return whether an assistant's message has words, not only calls."""
    messages = message_shapes.read(content)
    if messages is None:
        return content not in (None, "", [], {})
    return any(message.get("content") for message in messages)


def tool_calls(content: Any) -> tuple[ToolCall, ...]:
    """Return the tools that an assistant's message calls; what is none is left out."""
    found = message_shapes.read(content) or []
    return tuple(call for message in found for call in _calls(message))


def _calls(message: dict[str, Any]) -> Iterator[ToolCall]:
    listed = message.get("tool_calls")
    for call in listed if isinstance(listed, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            call_id = call.get("id")
            yield ToolCall(
                name=function["name"],
                arguments=function.get("arguments"),
                call_id=call_id if isinstance(call_id, str) else None,
            )
