"""Exchanges: a user's message and the messages after, in chat-completions form.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.words import render_part_words


class AssistantCall(NamedTuple):
    """A tool that the assistant called."""

    name: str
    #: Arguments as they were sent, mostly the text of a JSON object.
    arguments: str
    #: Id that pairs the call with its result; None without an id.
    call_id: str | None


class RememberedCall(NamedTuple):
    """A call to be remembered; `result` is None if there is none."""

    name: str
    arguments: str
    result: str | None


def build_messages(
    question: str, answer: str, uses: Sequence[RememberedCall] = ()
) -> list[dict[str, Any]]:
    """Build the messages of an exchange: question, calls, results, answer."""
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


def has_words(content: Any) -> bool:
    """Return whether an assistant's message has words, not only calls."""
    message = reading.read(content)
    return bool(message.refusal or any(map(render_part_words, message.parts)))


def list_tool_calls(content: Any) -> tuple[AssistantCall, ...]:
    """List the tools that an assistant's message calls, without nameless calls."""
    return tuple(
        AssistantCall(name=each.name, arguments=each.arguments, call_id=each.id)
        for each in reading.read(content).calls
        if each.name
    )
