"""Values as lists show them, and line-by-line differences of two values. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from inspector.drawing import chat
from memoryhub.queries.replay import exact_json

#: Characters of a value in a list, folded and unfolded.
GLIMPSED, UNFOLDED = 140, 600
#: Lines compared of each value, and characters of a line.
LINES, CHARS = 400, 200
#: Lines of a difference, and lines of context around each change.
SHOWN, AROUND = 60, 2
#: Lines of all differences on one page.
ON_A_PAGE = 240

DiffMark = Literal["same", "gone", "come", "cut"]
_MARKS: dict[str, DiffMark] = {" ": "same", "-": "gone", "+": "come"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """Line of a difference; `cut` stands for lines left out."""

    mark: DiffMark
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """Beginning of a value on one line."""

    text: str
    #: Longer text of the value, if one line does not hold it; else empty.
    whole: str
    #: Whether `whole` is cut, too.
    cut: bool


def build_glimpse(value: Any) -> Glimpse:
    """Build the glimpse of a value for a list."""
    text = exact_json.dump_json(value).decode()
    if len(text) <= GLIMPSED:
        return Glimpse(text=text, whole="", cut=False)
    whole = chat.render_json(value)
    return Glimpse(
        text=f"{text[:GLIMPSED]}…", whole=whole[:UNFOLDED], cut=len(whole) > UNFOLDED
    )


def diff_values(before: Any, after: Any, *, most: int = SHOWN) -> tuple[DiffLine, ...]:
    """List the lines that differ between two values, with their context."""
    lines = [*_iter_differing(_split_lines(before, after), _split_lines(after, before))]
    return _cut_lines(lines, most=most)


def list_lines(
    value: Any, mark: DiffMark, *, most: int = SHOWN
) -> tuple[DiffLine, ...]:
    """List the lines of a value that has no counterpart, all with one mark."""
    lines = [
        DiffLine(mark=mark, text=each[:CHARS]) for each in _split_lines(value, value)
    ]
    return _cut_lines(lines, most=most)


def _cut_lines(lines: list[DiffLine], *, most: int) -> tuple[DiffLine, ...]:
    left_out = (DiffLine(mark="cut"),) if len(lines) > most else ()
    return (*lines[:most], *left_out)


def _iter_differing(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    found = difflib.unified_diff(old, new, n=AROUND, lineterm="")
    # Skip the two header lines, which name files.
    begun = False
    for line in list(found)[2:]:
        if line.startswith("@@"):
            if begun:
                yield DiffLine(mark="cut")
            begun = True
            continue
        yield DiffLine(mark=_MARKS[line[0]], text=line[1 : CHARS + 1])


def _split_lines(value: Any, other: Any) -> list[str]:
    """Split a value into lines: plain if both values are texts, else as JSON."""
    both = isinstance(value, str) and isinstance(other, str)
    text = value if both and "\n" in value + other else chat.render_json(value)
    return text.split("\n")[:LINES]
