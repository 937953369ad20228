"""Reflections: the choice among a model's condensed logs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing.lines import ObservationLine, render_lines
from memoryhub.kernel.search.terms import STOP, list_terms

#: Words that identify a line's subject; one of them is enough.
_WORDS: Final = 3
#: Words without meaning for a subject, with those that lines begin with.
_SAY_NOTHING: Final = STOP | {"user", "assistant", "tool", "error"}


def is_valid_reflection(
    before: Sequence[ObservationLine],
    after: Sequence[ObservationLine],
    *,
    before_tokens: int,
    count: Count,
) -> bool:
    """Return whether a reflection has a line, is smaller, and keeps critical subjects.

    The subject of a line are its three words that occur in the fewest lines before.
    Among equally rare words, identifiers and numbers go first, then the longer words. A
    subject is kept if one of its words stands anywhere in the reflection. Linear.
    """
    if not after or count(render_lines(after)) >= before_tokens:
        return False
    words = [(line, _list_words(line)) for line in before]
    often = Counter(word for _, found in words for word in found)
    kept = set[str]().union(*map(_list_words, after))
    return all(
        not found or not kept.isdisjoint(_choose_subject(found, often))
        for line, found in words
        if line.mark == "critical"
    )


def find_smallest_valid(
    before: Sequence[ObservationLine],
    reflections: Iterable[Sequence[ObservationLine]],
    *,
    before_tokens: int,
    count: Count,
) -> tuple[ObservationLine, ...] | None:
    """Return the smallest valid reflection, of equal ones the first; None without."""
    found = [
        tuple(each)
        for each in reflections
        if is_valid_reflection(before, each, before_tokens=before_tokens, count=count)
    ]
    return min(found, key=lambda each: count(render_lines(each)), default=None)


def _list_words(line: ObservationLine) -> set[str]:
    return {*list_terms(line.text)} - _SAY_NOTHING


def _choose_subject(words: Iterable[str], often: Counter[str]) -> list[str]:
    return sorted(
        words, key=lambda word: (often[word], word.isalpha(), -len(word), word)
    )[:_WORDS]
