"""Words: all text of a message that a model or a person should read. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.kernel.messages import media, reading
from memoryhub.kernel.messages.message import Call, Message, MessagePart

FAILED = "[failed]"


def render_words(message: Message) -> str:
    """Render the words of a message, a line each: parts, refusal, calls, results.

    Thoughts are left out, and so is base64.
    """
    if message.is_plain and message.refusal is None and len(message.parts) == 1:
        return render_part_words(message.parts[0])
    return "\n".join(text for _, text in _iter_pieces(message) if text)


def render_parts(message: Message) -> str:
    """Render what the speaker says: texts, without calls, results and thoughts."""
    texts = (part.words for part in message.parts if part.kind == "text")
    return "\n".join(filter(None, texts))


def list_spans(message: Message) -> list[tuple[int, int]]:
    """Return the span of each result's words among the words of the message."""
    found, at = [(0, 0)] * len(message.results), 0
    for result, text in _iter_pieces(message):
        if result is not None and text:
            begin = found[result][0] if found[result][1] else at
            found[result] = begin, at + len(text)
        at += len(text) + 1 if text else 0
    return found


def render_content_words(content: Any) -> str:
    """Render the words of a slot's content."""
    return render_words(reading.read(content))


def render_part_words(part: MessagePart) -> str:
    """Render the words of a part, with a line for its medium where words lack it."""
    medium = part.medium
    if medium is None:
        return part.words
    if not part.words:
        return media.render_line(part)
    named = medium.url or medium.name
    return f"{media.render_line(part)}\n{part.words}" if named else part.words


def render_call_words(call: Call) -> str:
    """Render a call as `name(arguments)`."""
    return f"{call.name or ''}({media.remove_base64(call.arguments)})"


def render_thought_words(message: Message) -> str:
    """Render the thoughts that people may read."""
    return "\n".join(each.words for each in message.thoughts if each.words)


def _iter_pieces(message: Message) -> Iterator[tuple[int | None, str]]:
    """Yield the lines of a message, each with the index of its result or None."""
    for part in message.parts:
        yield None, render_part_words(part)
    yield None, message.refusal or ""
    for call in message.calls:
        yield None, render_call_words(call)
    for number, result in enumerate(message.results):
        yield None, FAILED if result.failed else ""
        for part in result.parts:
            yield number, render_part_words(part)
