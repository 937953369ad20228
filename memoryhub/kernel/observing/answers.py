"""Answers: the observations in a model's answer, or the reason for none.

Pure. An answer is one JSON object, bare, fenced or inside prose. Items in it that are
no line are dropped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing.lines import (
    SIGNS,
    Mark,
    ObservationLine,
    is_line,
    make_line,
    render_lines,
    to_one_line,
)
from memoryhub.kernel.text import times
from memoryhub.kernel.text.answer_json import iter_values

#: The caller tests for `too_large` by `is_too_large`; the others come from `read`.
Refusal = Literal["no_json", "empty", "degenerate", "too_large"]

#: Limits in characters.
MAX_HINT: Final = 500
MAX_LINE: Final = 10_000
#: Repetitions in a row that make an answer degenerate.
_IN_A_ROW: Final = 5
#: Number of lines from which at most half may be repetitions.
_MANY: Final = 20
_MARKS: Final[dict[str, Mark]] = {mark: mark for mark in SIGNS}
_NUMBER = re.compile(r"[0-9]{1,15}")


class ObserverAnswer(NamedTuple):
    """Observations of a model, each text one line."""

    lines: tuple[ObservationLine, ...]
    current_task: str | None
    suggested_response: str | None
    #: Number of items that were no lines.
    dropped: int


def read(text: str, *, first: int, end: int) -> ObserverAnswer | Refusal:
    """Read the observations of an answer about the slots from `first` to before `end`.

    A line whose slots lie outside that range, or can't be read, counts for all the
    slots.
    """
    found = _find_answer(text)
    if found is None:
        return "no_json"
    items = found["lines"]
    made = (_build_line(item, first, end) for item in items)
    lines = tuple(line for line in made if line is not None)
    if not lines:
        return "empty"
    if _is_degenerate([line.text for line in lines]):
        return "degenerate"
    return ObserverAnswer(
        lines=lines,
        current_task=_clean_hint(found.get("current_task")),
        suggested_response=_clean_hint(found.get("suggested_response")),
        dropped=len(items) - len(lines),
    )


def is_too_large(
    lines: Sequence[ObservationLine], raw_tokens: int, count: Count
) -> bool:
    """Return whether lines are no smaller than the messages they cover."""
    return count(render_lines(lines)) >= raw_tokens


def _find_answer(text: str) -> dict[str, Any] | None:
    """Find the first object with lines in it; else the first with an empty list."""
    empty = None
    for value in iter_values(text):
        if isinstance(value, dict) and isinstance(value.get("lines"), list):
            if any(isinstance(item, dict) for item in value["lines"]):
                return value
            empty = empty or value
    return empty


def _build_line(item: Any, first: int, end: int) -> ObservationLine | None:
    """Build a line from an item; None if the item is no line."""
    text = item.get("text") if isinstance(item, dict) else None
    if not isinstance(text, str) or not is_line(text):
        return None
    mark = item.get("mark")
    low, high = _clip_slots(item.get("slots"), first, end)
    return make_line(
        text,
        first=low,
        end=high,
        mark=_MARKS.get(mark, "medium") if isinstance(mark, str) else "medium",
        at=times.parse_instant(item.get("at")),
    )


def _clip_slots(slots: Any, first: int, end: int) -> tuple[int, int]:
    numbers = [*_iter_numbers(slots)]
    if not numbers:
        return first, end
    low, high = max(first, min(numbers)), min(end, max(numbers) + 1)
    return (low, high) if low < high else (first, end)


def _iter_numbers(slots: Any) -> Iterator[int]:
    """Yield the numbers of `[3, 5]`, `3` and `"3-5"`."""
    for each in slots if isinstance(slots, list) else [slots]:
        if isinstance(each, str):
            yield from map(int, _NUMBER.findall(each))
        elif isinstance(each, int) and not isinstance(each, bool):
            yield each


def _is_degenerate(texts: Sequence[str]) -> bool:
    return (
        any(len(text) > MAX_LINE for text in texts)
        or any(len([*run]) >= _IN_A_ROW for _, run in groupby(texts))
        or (len(texts) >= _MANY and 2 * len({*texts}) < len(texts))
    )


def _clean_hint(text: Any) -> str | None:
    if not isinstance(text, str) or not is_line(text):
        return None
    return to_one_line(text)[:MAX_HINT].rstrip()
