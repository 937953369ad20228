"""Answers: the observations in what a model says of messages, or why there are none.

Pure. One JSON object, bare, fenced or inside prose; what is no line in it is dropped
and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing.lines import (
    SIGNS,
    Line,
    Mark,
    is_line,
    make_line,
    one_line,
    written,
)
from memoryhub.kernel.text import times
from memoryhub.kernel.text.answer_json import values

#: `too_large` is what a reader of a good answer may find, by the function of that name.
Refusal = Literal["no_json", "empty", "degenerate", "too_large"]

#: Characters.
MAX_HINT: Final = 500
MAX_LINE: Final = 10_000
#: So often in a row a line is said by nobody who means it.
_IN_A_ROW: Final = 5
#: From so many lines on, at most half of them may have been said before.
_MANY: Final = 20
_MARKS: Final[dict[str, Mark]] = {mark: mark for mark in SIGNS}
_NUMBER = re.compile(r"[0-9]{1,15}")


class Answer(NamedTuple):
    """What a model observed, its texts each one line."""

    lines: tuple[Line, ...]
    current_task: str | None
    suggested_response: str | None
    #: Items that were no lines.
    dropped: int


def read(text: str, *, first: int, end: int) -> Answer | Refusal:
    """Return what an answer says of the slots from `first` to before `end`.

    A line whose slots are none of those, or can't be read, is of them all.
    """
    found = _found(text)
    if found is None:
        return "no_json"
    items = found["lines"]
    made = (_line(item, first, end) for item in items)
    lines = tuple(line for line in made if line is not None)
    if not lines:
        return "empty"
    if _degenerate([line.text for line in lines]):
        return "degenerate"
    return Answer(
        lines=lines,
        current_task=_hint(found.get("current_task")),
        suggested_response=_hint(found.get("suggested_response")),
        dropped=len(items) - len(lines),
    )


def too_large(lines: Sequence[Line], raw_tokens: int, count: Count) -> bool:
    """Return whether lines are no smaller than what they cover."""
    return count(written(lines)) >= raw_tokens


def _found(text: str) -> dict[str, Any] | None:
    """The first object with lines in it; else the first that has room for them."""
    empty = None
    for value in values(text):
        if isinstance(value, dict) and isinstance(value.get("lines"), list):
            if any(isinstance(item, dict) for item in value["lines"]):
                return value
            empty = empty or value
    return empty


def _line(item: Any, first: int, end: int) -> Line | None:
    """The line that an item makes; None if it makes none."""
    text = item.get("text") if isinstance(item, dict) else None
    if not isinstance(text, str) or not is_line(text):
        return None
    mark = item.get("mark")
    low, high = _clipped(item.get("slots"), first, end)
    return make_line(
        text,
        first=low,
        end=high,
        mark=_MARKS.get(mark, "medium") if isinstance(mark, str) else "medium",
        at=times.instant(item.get("at")),
    )


def _clipped(slots: Any, first: int, end: int) -> tuple[int, int]:
    numbers = [*_numbers(slots)]
    if not numbers:
        return first, end
    low, high = max(first, min(numbers)), min(end, max(numbers) + 1)
    return (low, high) if low < high else (first, end)


def _numbers(slots: Any) -> Iterator[int]:
    """The numbers of `[3, 5]`, `3` and `"3-5"`."""
    for each in slots if isinstance(slots, list) else [slots]:
        if isinstance(each, str):
            yield from map(int, _NUMBER.findall(each))
        elif isinstance(each, int) and not isinstance(each, bool):
            yield each


def _degenerate(texts: Sequence[str]) -> bool:
    return (
        any(len(text) > MAX_LINE for text in texts)
        or any(len([*run]) >= _IN_A_ROW for _, run in groupby(texts))
        or (len(texts) >= _MANY and 2 * len({*texts}) < len(texts))
    )


def _hint(text: Any) -> str | None:
    if not isinstance(text, str) or not is_line(text):
        return None
    return one_line(text)[:MAX_HINT].rstrip()
