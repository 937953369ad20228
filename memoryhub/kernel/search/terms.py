"""Terms: the units by which texts and queries are compared. Pure, linear.

Runs of letters and digits, folded (NFKC, casefold, no accents); an identifier whole and
in its parts; in scripts without spaces overlapping pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import Stemmer

#: Raised when the same record would get other terms or numbers. Segments of older
#: versions are no longer read; a migration deletes them, so that the worker writes new
#: ones.
VERSION = 5
#: Most characters of a term: nobody types a longer word.
LONGEST = 128

#: Letters and digits, with the marks that some scripts write between them.
_ACCENTS = "\u0300-\u036f"
_MARKS = _ACCENTS + "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963"
#: Thai, Lao, Burmese and Khmer, with their marks and without their digits.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u17dc\u17dd"
)
_LETTERS = rf"(?:[^\W_]|[{_MARKS}\u0966-\u0dff{_UNSPACED}])"
_RUN = re.compile(rf"{_LETTERS}+(?:[._:@/\\-]+{_LETTERS}+)*")
_PARTS = re.compile(rf"{_LETTERS}+")
_ASCII_RUN = re.compile(r"[a-z0-9]+(?:[._:@/\\-]+[a-z0-9]+)*")
_ASCII_PARTS = re.compile(r"[a-z0-9]+")
_JOINED = re.compile(r"[._:@/\\-]")
_PAIRED = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    f"\U00020000-\U0003ffff{_UNSPACED}]+"
)
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_ACCENT = re.compile(f"[{_ACCENTS}]+")
#: Letters with an inseparable accent.
_PLAIN = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i"}
)
#: English words without meaning of their own, and the rests after an apostrophe.
_STOP = """a an and are as at be been but by can could did do does for from had has have
he her his how i if in into is it its me my no not of on or our she should so than that
the their them then there these they this to us was we were what when where which who
whom why will with would you your d ll m re s t ve"""
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STOP = frozenset(re.findall("[a-z]+", _STOP))
Stem = Callable[[str], str]


class SearchWord(NamedTuple):
    """A run of letters and digits: as a whole, and its parts if it has any.

    A run of a script without spaces has parts only.
    """

    whole: str
    parts: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[str, ...]:
        return (self.whole, *self.parts) if self.whole else self.parts

    @property
    def spoken(self) -> tuple[str, ...]:
        """Return the parts, or the whole if there are none."""
        return self.parts or (self.whole,)

    @property
    def is_spelled(self) -> bool:
        """Return whether the word is only pairs of letters, which say little alone."""
        return not self.whole and any(map(_UNSPACED_LETTER.match, self.parts))


class WordRun(NamedTuple):
    """A word, and its place in its text."""

    start: int
    end: int
    word: SearchWord


def list_terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeats included."""
    if not text.isascii():
        return [term for run in iter_runs(text) for term in run.word.terms]
    runs = _ASCII_RUN.findall(text.lower())
    if "".join(runs).isalnum():
        return [run for run in runs if len(run) <= LONGEST]
    found = list[str]()
    for whole in runs:
        if len(whole) <= LONGEST:
            found.append(whole)
        if not whole.isalnum():
            found += (
                part for part in _ASCII_PARTS.findall(whole) if _is_short_enough(part)
            )
    return found


def build_date_terms(time: int) -> list[str]:
    """Return the terms of a day, of microseconds since 1970: `monday 8 may 2023`.

    Date terms differ from the terms of texts. So a number in a text keeps its rarity,
    though every record has such a number as its day.
    """
    day = _EPOCH + timedelta(microseconds=time)
    words = _DAYS[day.weekday()], str(day.day), _MONTHS[day.month - 1], str(day.year)
    return [*map(build_date_term, words)]


def build_date_term(word: str) -> str:
    """Return a word as a term of dates, with a prefix that no word has."""
    return "@" + word


def is_date_word(word: str) -> bool:
    """Return whether a word can be of a date."""
    return word.isdecimal() or word in _DAYS or word in _MONTHS


def iter_runs(text: str, initials: Collection[str] = ()) -> Iterator[WordRun]:
    """Yield the runs of a text that have terms, with their places.

    With `initials`, words with another first letter may be left out.
    """
    if text.isascii():
        yield from _iter_ascii_runs(text.lower(), initials)
        return
    for found in _RUN.finditer(text):
        word = _build_word(found.group())
        if word.whole or word.parts:
            yield WordRun(found.start(), found.end(), word)


def fold(text: str) -> str:
    """Return a text without differences of case, width or accents."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _ACCENT.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", text.translate(_PLAIN))


def has_joined_parts(term: str) -> bool:
    """Return whether a term is an identifier that has parts."""
    return _JOINED.search(term) is not None


def count_words(found: Sequence[str]) -> int:
    """Count the words of terms; of an identifier, only the parts count."""
    if not has_joined_parts("".join(found)):
        return len(found)
    return sum(not has_joined_parts(term) for term in found)


def build_stemmer() -> Stem:
    """Return a stemmer of English words; each thread of the process needs its own.

    The stemmer keeps no cache: words of subjects must not outlive their use.
    """
    stem: Stem = Stemmer.Stemmer("english", 0).stemWord

    def stem_word(word: str) -> str:
        return stem(word) if word.isascii() and word.isalpha() else word

    return stem_word


def _iter_ascii_runs(text: str, initials: Collection[str]) -> Iterator[WordRun]:
    """Yield the runs of a folded ASCII text in half the time of other texts."""
    for found in _ASCII_RUN.finditer(text):
        whole = found.group()
        if initials and whole[0] not in initials and whole.isalnum():
            continue
        parts: tuple[str, ...] = ()
        if not whole.isalnum():
            parts = tuple(
                part for part in _ASCII_PARTS.findall(whole) if _is_short_enough(part)
            )
        if _is_short_enough(whole) or parts:
            word = SearchWord(whole if _is_short_enough(whole) else "", parts)
            yield WordRun(found.start(), found.end(), word)


def _build_word(run: str) -> SearchWord:
    whole = fold(run)
    split = _PARTS.findall(whole)
    paired = _PAIRED.search(whole) is not None
    parts = tuple(
        part
        for each in split
        for part in _iter_part_terms(each)
        if _is_short_enough(part)
    )
    if paired or not _is_short_enough(whole):
        return SearchWord("", parts)
    return SearchWord(whole) if split == [whole] else SearchWord(whole, parts)


def _is_short_enough(term: str) -> bool:
    return len(term) <= LONGEST


def _iter_part_terms(part: str) -> Iterator[str]:
    """Yield a word as it is; a text without spaces in pairs of characters."""
    end = 0
    for found in _PAIRED.finditer(part):
        if end < found.start():
            yield part[end : found.start()]
        end, text = found.end(), found.group()
        if len(text) == 1:
            yield text
        for at in range(len(text) - 1):
            yield text[at : at + 2]
    if end < len(part):
        yield part[end:]
