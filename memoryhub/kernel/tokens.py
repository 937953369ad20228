"""Token counts by `est/1`, an estimate that needs no vocabulary. Pure."""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Any

from memoryhub.kernel import strict_json

#: Weights in 1/24 token, so that sums stay exact (source: the paging document).
_LETTER, _DIGIT, _OTHER_ASCII, _NARROW, _WIDE, _ASTRAL = 3, 12, 15, 8, 24, 48
_LETTERS, _DIGITS = ascii_letters.encode(), digits.encode()


def estimate(text: str) -> int:
    """Tokens of `text` by est/1; at least 1 unless it is empty."""
    if not text:
        return 0
    plain = text.encode("ascii", "ignore")
    rest = plain.translate(None, _LETTERS)
    others = rest.translate(None, _DIGITS + b"\n")
    figures = len(rest) - len(others) - plain.count(b"\n")
    total = (len(plain) - len(rest)) * _LETTER
    total += figures * _DIGIT + len(others) * _OTHER_ASCII
    if len(plain) < len(text):
        total += sum(_weight(ord(char)) for char in text if char > "\x7f")
    return max(1, -(-total // 24))


def _weight(point: int) -> int:
    if point < 0x2E80:
        return _NARROW
    return _WIDE if point <= 0xFFFF else _ASTRAL


def text_of(content: Any) -> str:
    """What a model would be given of a slot: text, tool calls as `name(arguments)`.

    Any other JSON stands as it was sent.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and isinstance(content.get("role"), str):
        parts = [*_text_parts(content.get("content")), *_calls(content)]
        return "\n".join(part for part in parts if part)
    return strict_json.as_sent(content).decode()


def _text_parts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


def _calls(message: dict[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    functions = [
        call["function"]
        for call in (calls if isinstance(calls, list) else [])
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    return [
        f"{each.get('name', '')}({each.get('arguments', '')})" for each in functions
    ]
