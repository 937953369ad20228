"""JSON that somebody typed: what is wrong with it, in words. Pure."""

from __future__ import annotations

from memoryhub.kernel.text.strict_json import JsonRefusedError

_TEXTS = {
    "empty_body": "Type a value, such as 12, true, null or a text in double quotes.",
    "duplicate_key": "One key stands twice in the same object.",
    "non_finite": "A number is none that JSON has.",
    "number_too_long": "A number has more digits than can be kept.",
    "integer_range": "A number has more digits than can be kept.",
    "too_deep": "It is nested too deep to be kept.",
    "too_many_nodes": "It holds more values than can be kept.",
    "key_too_long": "A key in it is too long to be kept.",
    "body_too_large": "It is too large to be kept.",
}


def error_text(problem: JsonRefusedError, text: str) -> str:
    """Say why a text is no value, and where it goes wrong if that is known."""
    if problem.code == "invalid_json":
        return f"This is no JSON{_place(problem.offset, text)}. Texts stand in quotes."
    return _TEXTS.get(problem.code, "It holds a character that can't be kept.")


def _place(offset: int | None, text: str) -> str:
    """Name the line and the character that a byte of the text is in."""
    if offset is None:
        return ""
    before = text.encode(errors="replace")[:offset].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return f": it goes wrong at line {line:,}, character {column:,}"
