"""Values as lists show them, and how two of them differ, line by line. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from inspector.drawing import chat
from memoryhub.queries.replay import exact_json

#: Characters of a value in a list, and of one that is unfolded there.
GLIMPSED, UNFOLDED = 140, 600
#: Lines of each of two values that are compared, and characters of a line.
LINES, CHARS = 400, 200
#: Lines of a difference, and those around what differs.
SHOWN, AROUND = 60, 2
#: Lines of all differences on a page that shows many.
ON_A_PAGE = 240

Mark = Literal["same", "gone", "come", "cut"]
_MARKS: dict[str, Mark] = {" ": "same", "-": "gone", "+": "come"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of the value before or after; `cut` stands for those left out."""

    mark: Mark
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """The beginning of a value on one line."""

    text: str
    #: More of it, where one line is not all; empty where it is.
    whole: str
    #: Even that is cut.
    cut: bool


def glimpse(value: Any) -> Glimpse:
    """Show a value in a list."""
    text = exact_json.dumps(value).decode()
    if len(text) <= GLIMPSED:
        return Glimpse(text=text, whole="", cut=False)
    whole = chat.pretty(value)
    return Glimpse(
        text=f"{text[:GLIMPSED]}…", whole=whole[:UNFOLDED], cut=len(whole) > UNFOLDED
    )


def difference(before: Any, after: Any, *, most: int = SHOWN) -> tuple[DiffLine, ...]:
    """List the lines that differ from one value to another, with those around them."""
    lines = [*_differing(_lines(before, after), _lines(after, before))]
    return _cut(lines, most=most)


def whole(value: Any, mark: Mark, *, most: int = SHOWN) -> tuple[DiffLine, ...]:
    """List the lines of a value that has none to be compared with."""
    lines = [DiffLine(mark=mark, text=each[:CHARS]) for each in _lines(value, value)]
    return _cut(lines, most=most)


def _cut(lines: list[DiffLine], *, most: int) -> tuple[DiffLine, ...]:
    left_out = (DiffLine(mark="cut"),) if len(lines) > most else ()
    return (*lines[:most], *left_out)


def _differing(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    found = difflib.unified_diff(old, new, n=AROUND, lineterm="")
    # What names the files, which there are none of.
    begun = False
    for line in list(found)[2:]:
        if line.startswith("@@"):
            if begun:
                yield DiffLine(mark="cut")
            begun = True
            continue
        yield DiffLine(mark=_MARKS[line[0]], text=line[1 : CHARS + 1])


def _lines(value: Any, other: Any) -> list[str]:
    """Write a value over lines: two texts as they are, all else as JSON."""
    both = isinstance(value, str) and isinstance(other, str)
    text = value if both and "\n" in value + other else chat.pretty(value)
    return text.split("\n")[:LINES]
