"""Excerpts: the part of a text that best matches a query. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memoryhub.kernel.search import terms
from memoryhub.kernel.search.terms import Stem, WordRun

LONGEST: Final = 240
#: Characters of a text that are read.
READ: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A piece of a text, and its matches, each as [start, end) of characters.

    `before` and `after` tell whether the text goes on at that side.
    """

    text: str
    matches: tuple[tuple[int, int], ...]
    before: bool
    after: bool


def build_excerpt(text: str, wanted: Collection[str], stem: Stem) -> Excerpt:
    """Return the window of at most 240 characters around most different words.

    `wanted` are the terms of the query. Without a match the window is the beginning of
    the text. `stem` stems the terms and the words of the text. Linear.
    """
    found = _list_matches(text[:READ], wanted, stem)
    start, end = _choose_window(found, len(text))
    return _cut_excerpt(text, found, start, end)


def mark_text(text: str, wanted: Collection[str], stem: Stem) -> Excerpt:
    """Return the whole text as an excerpt, with its matches as in `build_excerpt`."""
    return _cut_excerpt(text, _list_matches(text[:READ], wanted, stem), 0, len(text))


def narrow_excerpt(excerpt: Excerpt, most: int) -> Excerpt:
    """Return at most `most` characters of an excerpt, around most of its matches.

    A third of the room left over stands before the first match. Without a match the
    result is the beginning. Quadratic in the matches.
    """
    if len(excerpt.text) <= most:
        return excerpt
    best, first, last = 0, 0, most
    for begin, _ in excerpt.matches:
        ends = [end for at, end in excerpt.matches if at >= begin]
        inside = [end for end in ends if end - begin <= most]
        if len(inside) > best:
            best, first, last = len(inside), begin, inside[-1]
    start = max(0, first - (most - (last - first)) // 3)
    start = min(start, len(excerpt.text) - most)
    end = start + most
    if start and (space := excerpt.text.find(" ", start, first)) >= 0:
        start = space + 1
    matches = [
        (max(first, start) - start, min(last, end) - start)
        for first, last in excerpt.matches
        if start < last and first < end
    ]
    return Excerpt(
        text=excerpt.text[start:end],
        matches=(*matches,),
        before=excerpt.before or start > 0,
        after=excerpt.after or end < len(excerpt.text),
    )


def cut_out(excerpt: Excerpt, spans: Iterable[tuple[int, int]]) -> Excerpt:
    """Return an excerpt without these spans, which are sorted and do not overlap.

    Words stay apart: a span between two texts leaves ` · `. A match loses what of it
    was in a span. Linear but for a search of each match.
    """
    kept, at, size = list[str](), 0, 0
    #: Kept pieces, each as [start, end), with how far it moved.
    moved = list[tuple[int, int, int]]()
    for start, end in [*spans, (len(excerpt.text), len(excerpt.text))]:
        piece = excerpt.text[at:start]
        if piece:
            if kept:
                kept.append(" · ")
                size += 3
            moved.append((at, start, size - at))
            kept.append(piece)
            size += len(piece)
        at = end
    matches = [
        (max(first, start) + by, min(last, end) + by)
        for first, last in excerpt.matches
        for start, end, by in moved
        if start < last and first < end
    ]
    return Excerpt(
        text="".join(kept),
        matches=(*matches,),
        before=excerpt.before,
        after=excerpt.after,
    )


def has_phrase(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether the words of a phrase stand side by side in `words`."""
    first, size = phrase[0], len(phrase)
    wanted = [*phrase]
    return any(
        word == first and [*words[at : at + size]] == wanted
        for at, word in enumerate(words)
    )


def list_question_words(question: str) -> list[str]:
    """Return the words of a question that tell something, once each."""
    words = dict.fromkeys(split_words(question))
    return [word for word in words if word not in terms.STOP]


def list_shared_words(words: Iterable[str], text: str) -> list[str]:
    """Return those of a question's words that stand in a text in any form."""
    stem = terms.build_stemmer()
    stems = {stem(term) for term in split_words(text[:READ])}
    return [word for word in words if stem(word) in stems]


def split_words(text: str) -> list[str]:
    """Return the words of a text one by one, identifiers split into their parts."""
    return [term for run in terms.iter_runs(text) for term in run.word.spoken]


def _list_matches(
    text: str, wanted: Collection[str], stem: Stem
) -> list[tuple[int, int, str]]:
    """List the places of matches, each with the term that it matches."""
    stemmed = {stem(term): term for term in wanted}
    # A stem begins as its word does.
    initials = {each[0] for each in (*wanted, *stemmed) if each}
    found = list[tuple[int, int, str]]()
    for run in terms.iter_runs(text, initials):
        matches = {
            part: term
            for part in run.word.terms
            if (term := part if part in wanted else stemmed.get(stem(part)))
        }
        if matches and run.word.whole:
            found.append((run.start, run.end, next(iter(matches.values()))))
        elif matches:
            found += sorted(
                (*place, term)
                for part, term in matches.items()
                for place in _iter_inside(text, run, part)
            )
    return found


def _iter_inside(text: str, run: WordRun, part: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a part inside a run that is no word as a whole."""
    folded = [terms.fold(letter) for letter in text[run.start : run.end]]
    places = [at for at, each in enumerate(folded, run.start) for _ in each]
    letters = "".join(folded)
    at = letters.find(part)
    while at >= 0:
        yield places[at], places[at + len(part) - 1] + 1
        at = letters.find(part, at + 1)


def _cut_excerpt(
    text: str, found: Sequence[tuple[int, int, str]], start: int, end: int
) -> Excerpt:
    matches = list[tuple[int, int]]()
    for first, last, _ in found:
        if start <= first and last <= end:
            # Pairs of letters overlap.
            joined = matches and first - start < matches[-1][1]
            since = matches.pop()[0] if joined else first - start
            matches.append((since, last - start))
    return Excerpt(
        text=text[start:end],
        matches=(*matches,),
        before=start > 0,
        after=end < len(text),
    )


def _choose_window(found: Sequence[tuple[int, int, str]], size: int) -> tuple[int, int]:
    """Return the beginning and end of the best window.

    The window lies around the shortest piece with most different terms, the earliest of
    equal pieces: an answer stands beside the words of its question.
    """
    best, window = (0, 0), (0, min(size, LONGEST))
    for at, (start, _, _) in enumerate(found):
        different, last = set[str](), start
        for _, end, term in found[at:]:
            if end - start > LONGEST:
                break
            if term not in different:
                different.add(term)
                last = end
        if (worth := (len(different), start - last)) > best:
            begin = max(0, start - (LONGEST - (last - start)) // 2)
            best, window = worth, (begin, min(size, begin + LONGEST))
    return window
