"""Values: texts, ids and lists in JSON of any shape. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from memoryhub.kernel.text.json_text import dump_json
from memoryhub.kernel.text.numbers import Number

#: Members that say how to read the others.
STRUCTURE = frozenset({
    *("type", "role", "id", "object", "index", "status", "state", "lc", "phase"),
    *("signature", "thoughtSignature", "thought_signature", "encrypted_content"),
    *("encrypted_index", "cache_control", "cachePoint", "extra_content", "caller"),
    *("redactedContent", "detail", "example", "content_type", "tool_call_chunks"),
    "providerExecuted",
})  # fmt: skip

CITED = ("annotations", "citations")


def iter_strings(value: Any, silent: Collection[str] = STRUCTURE) -> Iterator[str]:
    """Yield the texts of a value in order, except in members that are `silent`."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if each:
                yield each
        elif isinstance(each, list):
            waiting += reversed(each)
        elif isinstance(each, dict):
            waiting += [v for n, v in reversed(each.items()) if n not in silent]


def has_content(value: Any) -> bool:
    """Return whether a value contains texts or numbers."""
    if isinstance(value, bool):
        return False
    lone = isinstance(value, int | float | Number)
    return lone or next(iter_strings(value, {"type"}), None) is not None


def to_id_text(value: Any) -> str | None:
    """Return an id or a name as a text; None if empty or of another type."""
    if isinstance(value, str):
        return value or None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return dump_json(value) if number else None


def find_first_id(item: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((found for n in names if (found := to_id_text(item.get(n)))), None)


def to_list(value: Any) -> list[Any]:
    if is_empty(value):
        return []
    return value if isinstance(value, list) else [value]


def is_empty(value: Any) -> bool:
    return value is None or (not value and isinstance(value, str | list | dict))


def render_citations(block: dict[str, Any]) -> str:
    """Render a line of the texts cited in annotations or citations."""
    if not ("annotations" in block or "citations" in block):
        return ""
    texts = dict.fromkeys(iter_strings([block.get(name) for name in CITED]))
    return f"[cited: {', '.join(texts)}]" if texts else ""
