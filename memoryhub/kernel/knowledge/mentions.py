"""Lines of a text that say a value. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from memoryhub.kernel.search.excerpts import has_phrase, split_words

#: Least letters of a value that is looked for: `no` or `5` stands in any text.
MIN_LETTERS = 3
#: Most letters by which two forms of one word differ at their end.
_ENDING = 2


class TextLines:
    """The words of a text's lines, to be searched for many values."""

    def __init__(self, text: str) -> None:
        self._lines = [split_words(line) for line in text.splitlines()]
        self._having: dict[str, set[int]] = {}
        for number, words in enumerate(self._lines):
            for word in words:
                self._having.setdefault(word, set()).add(number)

    def find_value(self, value: str) -> list[int]:
        """Return the lines that say a value, from 1 on.

        The value's words stand side by side there, in any case, width and accents.
        """
        phrase = split_words(value)
        if sum(map(len, phrase)) < MIN_LETTERS:
            return []
        common = set.intersection(*(self._having.get(w, set()) for w in phrase))
        return [n + 1 for n in sorted(common) if has_phrase(self._lines[n], phrase)]

    def find_values(self, values: Sequence[str]) -> list[list[int]]:
        """Return for each value of one property the lines that say it.

        A value that stands in a line only inside a longer one, as `tea` in `green tea`,
        is not said there.
        """
        spans = defaultdict[int, list[tuple[int, int, int]]](list)
        for index, value in enumerate(values):
            phrase = split_words(value)
            for number in self.find_value(value):
                for start in _list_starts(self._lines[number - 1], phrase):
                    spans[number].append((start, -(start + len(phrase)), index))
        found: list[set[int]] = [set() for _ in values]
        for number, of_line in spans.items():
            for index in _list_outermost(of_line):
                found[index].add(number)
        return [sorted(numbers) for numbers in found]

    def find_naming(self, name: str) -> list[int]:
        """Return the lines with all words of a property's name, as `has_word` compares.

        Cost: one step for each different word of the text, whatever the lines hold.
        """
        sought = {word for word in split_words(name) if len(word) >= MIN_LETTERS}
        having: dict[str, set[int]] = {word: set() for word in sought}
        for word, numbers in self._having.items():
            for form in _list_forms(word) & having.keys():
                having[form] |= numbers
        for word in sought:
            for form in _list_forms(word):
                having[word] |= self._having.get(form, set())
        common = set.intersection(*having.values()) if having else set()
        return [number + 1 for number in sorted(common)]

    def has_word(self, number: int, name: str) -> bool:
        """Tell whether a word of a property's name stands in a line.

        Words shorter than MIN_LETTERS letters, as in `lives in`, do not count. An
        ending of up to two letters does not count: `lives` is `live`.
        """
        sought = [word for word in split_words(name) if len(word) >= MIN_LETTERS]
        return any(
            _is_same_word(word, each)
            for word in sought
            for each in self._lines[number - 1]
        )


def _list_starts(words: Sequence[str], phrase: Sequence[str]) -> list[int]:
    """List where a phrase stands in words, by the number of its first word."""
    size, wanted = len(phrase), [*phrase]
    return [
        at
        for at in range(len(words) - size + 1)
        if words[at] == wanted[0] and [*words[at : at + size]] == wanted
    ]


def _list_outermost(spans: Iterable[tuple[int, int, int]]) -> set[int]:
    """Return the values with a span that no longer one contains.

    Spans are a start, a negated end and a value. Cost: that of sorting them.
    """
    outermost, widest = set(), (0, 0)
    for start, end, index in sorted(spans):
        # What came before begins no later: it contains this one if it ends no earlier.
        if -end > -widest[1] or (start, end) == widest:
            outermost.add(index)
            widest = (start, end)
    return outermost


def _list_forms(word: str) -> set[str]:
    """List a word, and the word without an ending of up to _ENDING letters."""
    least = max(MIN_LETTERS, len(word) - _ENDING)
    return {word[:size] for size in range(least, len(word) + 1)}


def _is_same_word(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    same = len(short) >= MIN_LETTERS and len(long) - len(short) <= _ENDING
    return same and long.startswith(short)


def split_line(line: str, value: str) -> list[str]:
    """Split a line at a value: every second piece is the value as it stands there.

    In any case and with any blanks, but whole: no part of a longer word. One piece, the
    line, if the value stands there nowhere.
    """
    words = r"\s+".join(map(re.escape, value.split()))
    return re.split(rf"(?<!\w)({words})(?!\w)", line, flags=re.IGNORECASE)
