"""Levels of JSON by `extract/1`: a pruned copy, the shape, the name.

Pure and deterministic. Each level states how many items it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from memoryhub.kernel.context.tokens import Count, count_fitting
from memoryhub.kernel.levels.level_text import END, shorten_text
from memoryhub.kernel.text.json_text import dump_json


class Trim(NamedTuple):
    """Limits of a pruned copy: array items, characters, depth and object members."""

    items: int
    chars: int
    depth: int
    members: int | None = None


#: Limits tried in this order; the first copy that fits is taken. The last two are for
#: objects so wide that no other limits make them small.
TRIMS = (
    Trim(8, 200, 6),
    Trim(3, 64, 4),
    Trim(2, 32, 3),
    Trim(1, 24, 3),
    Trim(1, 24, 3, 16),
    Trim(1, 24, 2, 4),
)
_DEPTHS = (6, 3, 2, 1)
_LONGEST_KEY = 64
#: No token is more than 8 letters.
_CHARS_PER_TOKEN = 8
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def reduce_json(value: Any, *, cap: int, count: Count) -> Any:
    """Return a copy with long arrays, strings and deep parts cut.

    None if no copy is small enough.
    """
    for trim in TRIMS:
        copy = _prune(value, trim, trim.depth)
        if count(dump_json(copy)) <= cap:
            return copy
    return None


def abstract_json(value: Any, *, cap: int, count: Count) -> str | None:
    """Return the value's shape: keys, types, lengths of arrays."""
    shape = ""
    for depth in _DEPTHS:
        shape = _join_pieces(_iter_shape(value, depth), cap * _CHARS_PER_TOKEN)
        if count(shape) <= cap:
            return shape
    kept = shape[: count_fitting(shape, cap - count(END), count=count)]
    return kept + END if kept and count(kept + END) <= cap else None


def render_json_reference(
    value: Any, *, label: str, name: str | None, cap: int, count: Count
) -> str | None:
    """Render `label`, then the name of the value's schema, else its top keys."""
    about = name or _join_pieces(_iter_summary(value), cap * _CHARS_PER_TOKEN)
    kept = shorten_text(about, cap - count(label), count=count)
    made = label + kept
    return made if kept and count(made) <= cap else None


def _prune(value: Any, trim: Trim, depth: int) -> Any:
    if isinstance(value, str):
        return _cut_text(value, trim.chars)
    if not isinstance(value, dict | list) or not value:
        return value
    if depth == 0:
        return f"+{len(value)} more"
    if isinstance(value, list):
        kept = [_prune(item, trim, depth - 1) for item in value[: trim.items]]
        more = len(value) - len(kept)
        return [*kept, f"+{more} more"] if more else kept
    members = islice(value.items(), trim.members)
    copy = {key: _prune(item, trim, depth - 1) for key, item in members}
    more = len(value) - len(copy)
    return {**copy, "…": f"+{more} more"} if more else copy


def _cut_text(text: str, chars: int) -> str:
    more = len(text) - chars
    return f"{text[:chars]}… +{more} more" if more > 0 else text


def _join_pieces(pieces: Iterator[str], chars: int) -> str:
    """Join the pieces, up to the first `chars` characters and a little more."""
    taken, length = list[str](), 0
    for piece in pieces:
        taken.append(piece)
        length += len(piece)
        if length > chars:
            break
    return "".join(taken)


def _iter_shape(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and value and depth:
        for index, (key, item) in enumerate(value.items()):
            yield f"{', ' if index else '{'}{_render_key(key)}: "
            yield from _iter_shape(item, depth - 1)
        yield "}"
    elif isinstance(value, list) and value and depth:
        yield f"[{len(value)} of "
        yield from _iter_shape(value[0], depth - 1)
        yield "]"
    else:
        yield _name_kind(value)


def _name_kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{len(value)} keys}}" if value else "{}"
    if isinstance(value, list):
        return f"[{len(value)}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return "text" if isinstance(value, str) else "number"


def _iter_summary(value: Any) -> Iterator[str]:
    """Yield the top keys; for an array its length and the keys of its first item."""
    if isinstance(value, list) and value:
        yield f"[{len(value)}] "
        value = value[0]
    if not isinstance(value, dict) or not value:
        yield _name_kind(value)
        return
    for index, key in enumerate(value):
        yield f"{', ' if index else ''}{_render_key(key)}"


def _render_key(key: str) -> str:
    """Render a key as it reads best; odd keys in quotes, very long keys cut."""
    if len(key) > _LONGEST_KEY:
        key = key[:_LONGEST_KEY] + "…"
    return key if _PLAIN.fullmatch(key) else dump_json(key)
