"""Lines of a text that say a value. Pure."""

from __future__ import annotations

import re

from memoryhub.kernel.search.excerpts import has_phrase, split_words

#: Least letters of a value that is looked for: `no` or `5` stands in any text.
MIN_LETTERS = 3


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


def split_line(line: str, value: str) -> list[str]:
    """Split a line at a value: every second piece is the value as it stands there.

    In any case and with any blanks, but whole: no part of a longer word. One piece, the
    line, if the value stands there nowhere.
    """
    words = r"\s+".join(map(re.escape, value.split()))
    return re.split(rf"(?<!\w)({words})(?!\w)", line, flags=re.IGNORECASE)
