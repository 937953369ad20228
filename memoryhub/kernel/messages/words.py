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
    return "\n".join(filter(None, _lines(message)))


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


def _lines(message: Message) -> Iterator[str]:
    yield from map(part_words, message.parts)
    yield message.refusal or ""
    yield from map(call_words, message.calls)
    for result in message.results:
        yield FAILED if result.failed else ""
        yield from map(part_words, result.parts)
