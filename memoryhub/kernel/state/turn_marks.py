"""Marks of turns: an answer is wrong or good; the newest mark of a turn counts. Pure.

Marks are no working memory: no checkpoint holds them, and no restore brings them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from rpds import HashTrieMap

MarkWord = Literal["wrong", "good"]


class AnswerMark(NamedTuple):
    """A mark of a turn; its comment, if any, is the payload of its event."""

    clock: int
    word: MarkWord
    commented: bool


#: Marks by turn.
TurnMarks: TypeAlias = "HashTrieMap[int, AnswerMark]"
NO_MARKS: TurnMarks = HashTrieMap()


def remove_erased(marks: TurnMarks, is_erased: Callable[[int], bool]) -> TurnMarks:
    """Return the marks whose events were not erased; the same object if all stay."""
    for turn in [n for n, mark in marks.items() if is_erased(mark.clock)]:
        marks = marks.remove(turn)
    return marks


def to_json(marks: TurnMarks) -> list[list[Any]]:
    """Return the canonical form, sorted by turn: plain JSON values."""
    return [[turn, *mark] for turn, mark in sorted(marks.items())]


def from_json(plain: Sequence[Sequence[Any]]) -> TurnMarks:
    """Build the marks from the result of `to_json`."""
    return HashTrieMap({turn: AnswerMark(*mark) for turn, *mark in plain})
