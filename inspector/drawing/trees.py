"""Trees: a JSON value as nested lines, as many as a page carries. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memoryhub.queries.replay import exact_json

#: Values that are shown, and characters of one text.
SHOWN, CHARS = 400, 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value with the name or place it stands under."""

    label: str
    #: Of a plain value; empty of what holds others.
    text: str = ""
    #: What kind of value it is, as one letter would not say: `array`, `object` or ``.
    kind: str = ""
    #: Values in it, and those of them that are shown.
    count: int = 0
    children: tuple[Node, ...] = ()

    @property
    def cut(self) -> int:
        """Values in it that are not shown."""
        return self.count - len(self.children)


def tree(value: Any) -> Node:
    """The value, `SHOWN` values of it, the first of each branch first."""
    return _node("", value, iter(range(SHOWN)))


def _node(label: str, value: Any, room: Iterator[int]) -> Node:
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = {str(n): each for n, each in enumerate(value[:SHOWN])}.items()
    else:
        return Node(label=label, text=_plain(value))
    kind = "object" if isinstance(value, dict) else "array"
    children = []
    for name, each in pairs:
        if next(room, None) is None:
            break
        children.append(_node(name, each, room))
    return Node(label=label, kind=kind, count=len(value), children=tuple(children))


def _plain(value: Any) -> str:
    text = exact_json.dumps(value).decode()
    return text if len(text) <= CHARS else f"{text[:CHARS]}…"
