"""Error texts for JSON that an operator typed. Pure."""

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


def describe_error(problem: JsonRefusedError, text: str) -> str:
    """Describe why a text is no JSON value, with the place of the error if known."""
    if problem.code == "invalid_json":
        place = _describe_place(problem.offset, text)
        return f"This is no JSON{place}. Texts stand in quotes."
    return _TEXTS.get(problem.code, "It holds a character that can't be kept.")


def _describe_place(offset: int | None, text: str) -> str:
    """Describe the line and the character of a byte offset; empty without an offset."""
    if offset is None:
        return ""
    before = text.encode(errors="replace")[:offset].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return f": it goes wrong at line {line:,}, character {column:,}"
