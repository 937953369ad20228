"""Excerpts: the part of a text that says most of what was looked for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memoryhub.kernel.search import terms
from memoryhub.kernel.search.terms import Run, Stem

LONGEST: Final = 240
#: Characters of a text that are looked at.
READ: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A piece of a text, and where matches stand in it, as [start, end) of characters.

    `before` and `after` tell whether there is more of the text on that side.
    """

    text: str
    matches: tuple[tuple[int, int], ...]
    before: bool
    after: bool


def excerpt(text: str, wanted: Collection[str], stem: Stem) -> Excerpt:
    """Return the window of at most 240 characters around most different words.

    `wanted` are the terms that were looked for. Where none stands in the
    text, it is its beginning. `stem` is what stems them, and words of the text. Linear.
    """
    found = _found(text[:READ], wanted, stem)
    start, end = _window(found, len(text))
    piece = text[start:end]
    matches = list[tuple[int, int]]()
    for first, last, _ in found:
        if start <= first and last <= end:
            # Pairs of letters overlap.
            joined = matches and first - start < matches[-1][1]
            since = matches.pop()[0] if joined else first - start
            matches.append((since, last - start))
    return Excerpt(
        text=piece, matches=(*matches,), before=start > 0, after=end < len(text)
    )


def holds_phrase(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether the words of a phrase stand side by side among these."""
    first, size = phrase[0], len(phrase)
    wanted = [*phrase]
    return any(
        word == first and [*words[at : at + size]] == wanted
        for at, word in enumerate(words)
    )


def shared(question: str, text: str) -> list[str]:
    """Return the words of a question that stand in a text in any form, once each."""
    stem = terms.stemmer()
    stems = {stem(term) for term in spoken(text[:READ])}
    words = dict.fromkeys(word for word in spoken(question) if word not in terms.STOP)
    return [word for word in words if stem(word) in stems]


def spoken(text: str) -> list[str]:
    """Return the words of a text one by one: identifiers in their parts."""
    return [term for run in terms.runs(text) for term in run.word.spoken]


def _found(
    text: str, wanted: Collection[str], stem: Stem
) -> list[tuple[int, int, str]]:
    """Places of matches, and the term that each is one of."""
    stemmed = {stem(term): term for term in wanted}
    # A stem begins as its word does.
    initials = {each[0] for each in (*wanted, *stemmed) if each}
    found = list[tuple[int, int, str]]()
    for run in terms.runs(text, initials):
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


def _iter_inside(text: str, run: Run, part: str) -> Iterator[tuple[int, int]]:
    """Yield where a part stands in a run that is no word as a whole."""
    folded = [terms.fold(letter) for letter in text[run.start : run.end]]
    places = [at for at, each in enumerate(folded, run.start) for _ in each]
    letters = "".join(folded)
    at = letters.find(part)
    while at >= 0:
        yield places[at], places[at + len(part) - 1] + 1
        at = letters.find(part, at + 1)


def _window(found: Sequence[tuple[int, int, str]], size: int) -> tuple[int, int]:
    """Where the best window begins and ends.

    Around the shortest piece with most different terms, of equal ones the earliest:
    what answers a question stands beside its words.
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
