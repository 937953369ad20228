"""Exchanges: what a user said and what followed, as messages of chat completions.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.words import part_words


class ToolCall(NamedTuple):
    """A tool that the assistant called."""

    name: str
    #: As it was sent, mostly the text of a JSON object.
    arguments: str
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
    message = reading.read(content)
    return bool(message.refusal or any(map(part_words, message.parts)))


def tool_calls(content: Any) -> tuple[ToolCall, ...]:
    """Return the tools that an assistant's message calls; what has no name is none."""
    return tuple(
        ToolCall(name=each.name, arguments=each.arguments, call_id=each.id)
        for each in reading.read(content).calls
        if each.name
    )
