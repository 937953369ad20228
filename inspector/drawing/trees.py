"""Trees: a JSON value as nested nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memoryhub.queries.replay import exact_json

#: Most values shown of a tree, and most characters of one text.
SHOWN, CHARS = 400, 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A JSON value with its name or index in the parent."""

    label: str
    #: JSON of a plain value; empty for an array or object.
    text: str = ""
    #: `array`, `object`, or empty for a plain value.
    kind: str = ""
    #: Values in the array or object, and the nodes of the values shown.
    count: int = 0
    children: tuple[TreeNode, ...] = ()

    @property
    def cut(self) -> int:
        """Return the number of values in the node that are not shown."""
        return self.count - len(self.children)


def build_tree(value: Any) -> TreeNode:
    """Build the tree of a value, depth first, at most `MAX_VALUES` values."""
    return _build_node("", value, iter(range(SHOWN)))


def _build_node(label: str, value: Any, room: Iterator[int]) -> TreeNode:
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = {str(n): each for n, each in enumerate(value[:SHOWN])}.items()
    else:
        return TreeNode(label=label, text=_render_plain(value))
    kind = "object" if isinstance(value, dict) else "array"
    children = []
    for name, each in pairs:
        if next(room, None) is None:
            break
        children.append(_build_node(name, each, room))
    return TreeNode(label=label, kind=kind, count=len(value), children=tuple(children))


def _render_plain(value: Any) -> str:
    text = exact_json.dump_json(value).decode()
    return text if len(text) <= CHARS else f"{text[:CHARS]}…"
