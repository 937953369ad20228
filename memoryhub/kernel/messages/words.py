"""Words: all that a model or a person should read of a message. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.kernel.messages import media, reading
from memoryhub.kernel.messages.message import Call, Message, Part

FAILED = "[failed]"


def words(message: Message) -> str:
    """Return what is said, a line each: parts, refusal, calls, results.

    Thoughts are apart, and base64 is never among it.
    """
    if message.is_plain and message.refusal is None and len(message.parts) == 1:
        return part_words(message.parts[0])
    return "\n".join(text for _, text in _pieces(message) if text)


def list_spans(message: Message) -> list[tuple[int, int]]:
    """Return where the words of each result stand among those of the message."""
    found, at = [(0, 0)] * len(message.results), 0
    for result, text in _pieces(message):
        if result is not None and text:
            begin = found[result][0] if found[result][1] else at
            found[result] = begin, at + len(text)
        at += len(text) + 1 if text else 0
    return found


def content_words(content: Any) -> str:
    """Return the words of what a slot's content says."""
    return words(reading.read(content))


def part_words(part: Part) -> str:
    """Return the words of a part; of a medium its line where the words lack it."""
    medium = part.medium
    if medium is None:
        return part.words
    if not part.words:
        return media.line(part)
    named = medium.url or medium.name
    return f"{media.line(part)}\n{part.words}" if named else part.words


def call_words(call: Call) -> str:
    """Return `name(arguments)`."""
    return f"{call.name or ''}({media.without_base64(call.arguments)})"


def thought_words(message: Message) -> str:
    """Return what people may read of the thoughts."""
    return "\n".join(each.words for each in message.thoughts if each.words)


def _pieces(message: Message) -> Iterator[tuple[int | None, str]]:
    """Yield what is said, in lines, with the number of the result that says it."""
    for part in message.parts:
        yield None, part_words(part)
    yield None, message.refusal or ""
    for call in message.calls:
        yield None, call_words(call)
    for number, result in enumerate(message.results):
        yield None, FAILED if result.failed else ""
        for part in result.parts:
            yield number, part_words(part)
