"""Lines of a text that say a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
        phrases = [split_words(value) for value in values]
        found = [self.find_value(value) for value in values]
        spans = [
            {n: _list_spans(self._lines[n - 1], phrase) for n in numbers}
            for phrase, numbers in zip(phrases, found, strict=True)
        ]
        return [
            [n for n in own if any(_is_outermost(s, n, spans) for s in own[n])]
            for own in spans
        ]

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


def _list_spans(words: Sequence[str], phrase: Sequence[str]) -> list[range]:
    """List where a phrase stands in words, by the words' numbers."""
    size, wanted = len(phrase), [*phrase]
    places = (range(at, at + size) for at in range(len(words) - size + 1))
    return [each for each in places if [*words[each.start : each.stop]] == wanted]


def _is_outermost(
    span: range, number: int, spans: Sequence[Mapping[int, Sequence[range]]]
) -> bool:
    """Tell whether no longer span of a line contains this one."""
    others = (each for own in spans for each in own.get(number, ()))
    return not any(
        each.start <= span.start and span.stop <= each.stop and len(each) > len(span)
        for each in others
    )


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
