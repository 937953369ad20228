"""Filters of key values in lists, and of their differences."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from django import template

from inspector.memory import values
from inspector.memory.values import DiffLine
from memoryhub.queries.memory.comparisons import KeyDifference

#: Lines shown of each of the 200 keys that a page compares.
_MAX_LINES = 20

register = template.Library()
register.filter("glimpse", values.build_glimpse)


@register.filter
def file_path(block: str) -> str:
    """Return the path of a memory tool's file by its block's name; empty if none.

    A long path's name ends with a digest of the path, so that it tells no path.
    """
    found = re.fullmatch(r"memories:(.+?)(?:@@\d+)?", block)
    if found is None or "@@" in found[1]:
        return ""
    bytes_of_path = unquote_to_bytes(found[1].replace("@", "%"))
    return "/memories/" + bytes_of_path.decode(errors="replace").replace(":", "/")


#: Kinds of the keys that LangGraph's saver makes, whose names are digests.
_SAVER_KEYS = (
    (re.compile(r"c\.[^.]+\.[^.]+z"), "checkpoint of the graph"),
    (re.compile(r"c\.[^.]+\.[^.]+z\..+"), "writes after a checkpoint"),
    (re.compile(r"v\..+"), "text that checkpoints share"),
)


@register.filter
def key_kind(name: str, thread: str) -> str:
    """Return what a key of a LangGraph thread holds; empty for any other key."""
    if not thread.startswith("langgraph:"):
        return ""
    return next((kind for form, kind in _SAVER_KEYS if form.fullmatch(name)), "")


@register.filter
def changed_lines(key: KeyDifference) -> tuple[DiffLine, ...]:
    """Return the changed lines of a key's value; all lines if one side is missing."""
    before, after = key.before, key.after
    if before is not None and before.opened and after is not None and after.opened:
        return values.diff_values(before.value, after.value, most=_MAX_LINES)
    if before is not None and before.opened:
        return values.list_lines(before.value, "gone", most=_MAX_LINES)
    if after is not None and after.opened:
        return values.list_lines(after.value, "come", most=_MAX_LINES)
    return ()
