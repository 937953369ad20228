"""Codes: words such as order numbers and files, and shortening that keeps them.

Pure, linear but for a logarithm. An order's number is asked for later, word for word;
the sense of most other words is enough.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from memoryhub.kernel.context.tokens import Count

#: Mark in place of words that were left out.
GAP: Final = "…"
#: Longest code in characters; a longer word counts as text.
LONGEST: Final = 64
#: Most codes, and most files, of one text. A list of hundreds is read in the text
#: itself.
MOST: Final = 64
#: Words between blanks; brackets at the beginning count as one word.
_WORD = re.compile(r"^\[[^\]]*\]|\S+")
_RUN = re.compile(r"[^\W_]+(?:[._/@#:-]+[^\W_]+)*")
#: Runs with a digit in or right after them, which most words lack.
_RUN_OF_CODES = re.compile(rf"(?<![^\W_])(?=\S{{0,{LONGEST}}}[0-9]){_RUN.pattern}")
#: A letter and a digit (more than one digit if the letters are small), or five digits
#: in a row. Days, times of them and ordinals are no codes.
_CODE = re.compile(
    r"(?=.*[^\W\d_])(?=.*[0-9].*[0-9]|[^a-z]*[0-9][^a-z]*$).+|.*[0-9]{5}.*"
)
#: A file: a path with any ending, or a bare name with one of these endings.
_PATH = re.compile(
    r"(?:[\w.~@-]*/)+[\w.@-]*\.[a-z][a-z0-9]{0,5}|[\w-]{2,}\.(?:py|pyi|js|jsx|ts|tsx|"
    r"html?|css|json|ya?ml|toml|ini|cfg|md|rst|txt|csv|pdf|docx?|xlsx?|png|jpe?g|svg|"
    r"sh|sql|rs|go|java|kt|rb|php|cpp|hpp|swift|ipynb|lock|log|env)"
)
#: Runs with a dot and a letter behind the dot, which few words have.
_RUN_OF_PATHS = re.compile(
    r"(?<![\w.~/@-])(?=[\w~/@-]*\.[\w./~@-]*[a-z])"
    rf"[\w.~/@-]{{3,{LONGEST}}}(?![\w.~/@-])"
)
_NONE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+.*)?|[0-9]+(?:st|nd|rd|th)", re.IGNORECASE
)


def list_codes(text: str) -> tuple[str, ...]:
    """List the first codes of a text, each once, in order; files after other codes."""
    found = _list_first(_iter_codes(text))
    found |= _list_first(_iter_paths(text))
    return tuple(found)


def _iter_codes(text: str) -> Iterator[str]:
    words = (run.group() for run in _RUN_OF_CODES.finditer(text))
    return filter(is_code, words)


def _iter_paths(text: str) -> Iterator[str]:
    runs = _RUN_OF_PATHS.finditer(text) if "." in text else ()
    return filter(is_path, (run.group().rstrip(".") for run in runs))


def _list_first(words: Iterable[str]) -> dict[str, None]:
    found = dict[str, None]()
    for word in words:
        found[word] = None
        if len(found) == MOST:
            break
    return found


def is_path(word: str) -> bool:
    """Return whether a word names a file."""
    return _PATH.fullmatch(word) is not None


def is_code(word: str) -> bool:
    """Return whether a word without blanks is a code."""
    if not 3 <= len(word) <= LONGEST or _NONE.fullmatch(word):
        return False
    return (_CODE.fullmatch(word) or _PATH.fullmatch(word)) is not None


def shorten_around_codes(text: str, room: int, *, count: Count) -> str:
    """Return `text` if it fits, else its first word, its codes and its beginning.

    The result has as many words, in this order of importance, as `room` tokens hold,
    but at least one. Words stay in the order of the text, with a mark where some were
    left out.
    """
    if count(text) <= room:
        return text
    words = _WORD.findall(text)
    important = sorted(
        range(len(words)), key=lambda at: (at > 0, not has_code(words[at]))
    )

    def is_over(size: int) -> bool:
        return count(" ".join(_iter_kept(words, important[:size]))) > room

    size = bisect_left(range(len(words) + 1), x=True, lo=2, key=is_over) - 1
    return " ".join(_iter_kept(words, important[:size]))


def has_code(text: str) -> bool:
    """Return whether a text contains a code."""
    return any(True for _ in chain(_iter_codes(text), _iter_paths(text)))


def _iter_kept(words: Sequence[str], places: Iterable[int]) -> Iterator[str]:
    before = -1
    for at in sorted(places):
        if at > before + 1:
            yield GAP
        yield words[at]
        before = at
    if before + 1 < len(words):
        yield GAP
