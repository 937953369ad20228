"""Reflections: which of a model's tries may stand for the lines that it read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing.lines import Line, written
from memoryhub.kernel.search.terms import STOP, terms_of

#: Words of a line that its subject is known by; one of them is enough.
_WORDS: Final = 3
#: Also those that lines begin with, whatever they are about.
_SAY_NOTHING: Final = STOP | {"user", "assistant", "tool", "error"}


def valid(
    before: Sequence[Line], after: Sequence[Line], *, before_tokens: int, count: Count
) -> bool:
    """Return whether a reflection has a line, is smaller, and keeps critical subjects.

    A line's subject are those three of its words that the fewest lines before have;
    of words as rare, identifiers and numbers, then the longer ones. It is kept if one
    of them stands anywhere in the reflection. Linear.
    """
    if not after or count(written(after)) >= before_tokens:
        return False
    words = [(line, _words(line)) for line in before]
    often = Counter(word for _, found in words for word in found)
    kept = set[str]().union(*map(_words, after))
    return all(
        not found or not kept.isdisjoint(_subject(found, often))
        for line, found in words
        if line.mark == "critical"
    )


def smallest_valid(
    before: Sequence[Line],
    reflections: Iterable[Sequence[Line]],
    *,
    before_tokens: int,
    count: Count,
) -> tuple[Line, ...] | None:
    """Return the smallest valid reflection, of equal ones the first; None without."""
    found = [
        tuple(each)
        for each in reflections
        if valid(before, each, before_tokens=before_tokens, count=count)
    ]
    return min(found, key=lambda each: count(written(each)), default=None)


def _words(line: Line) -> set[str]:
    return {*terms_of(line.text)} - _SAY_NOTHING


def _subject(words: Iterable[str], often: Counter[str]) -> list[str]:
    return sorted(
        words, key=lambda word: (often[word], word.isalpha(), -len(word), word)
    )[:_WORDS]
