"""Term filters: threads that can't match a query, told by hashes. Never writes.

A filter leaves out no thread that matches. Other threads may pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from memoryhub.journal.log import thread_terms
from memoryhub.journal.log.thread_terms import hash_term
from memoryhub.kernel.search import terms
from memoryhub.kernel.search.arrays import Numbers
from memoryhub.kernel.search.parsing import SearchQuery
from memoryhub.models.threads import Thread

#: What a thread may hold of a query, likeliest first: its words side by side, nobody
#: knows what, all of the words, or some.
Fit = Literal["phrase", "unknown", "all", "some"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFilter:
    """Hashes of a query: a matching thread has one of a word's, and all of `all_of`."""

    #: Hashes of each word's forms.
    each_of: tuple[frozenset[int], ...]
    all_of: frozenset[int]
    #: Hashes of each two words that are typed side by side.
    neighbours: frozenset[int] = frozenset()

    @classmethod
    def build(cls, query: SearchQuery) -> TermFilter:
        """Build the filter of a query, from its terms, their stems and dates."""
        words = [{*word.terms} for word in query.wanted]
        words = [kept for word in words if (kept := word - terms.STOP)] or words
        return cls(
            each_of=tuple(_hash_forms(word) for word in words),
            all_of=frozenset(hash_term(w) for phrase in query.phrases for w in phrase),
            neighbours=frozenset(
                pair
                for typed in (*query.phrases, _list_typed(query))
                for pair in thread_terms.hash_neighbours(typed)
            ),
        )

    def find_fits(self, threads: Sequence[Thread]) -> dict[UUID, Fit | None]:
        """Find how threads fit, None for a thread that can't match.

        `threads` come with their subjects. Without words to look for each fits best.
        Two queries, or none where no thread moved.
        """
        if not self.each_of:
            return {each.id: "phrase" for each in threads}
        fits: dict[UUID, Fit | None] = {each.id: "unknown" for each in threads}
        found = thread_terms.read_hashes(threads)
        return fits | {thread: self._find_fit(each) for thread, each in found.items()}

    def _find_fit(self, values: Numbers) -> Fit | None:
        held = [any(_has_value(values, n) for n in word) for word in self.each_of]
        if not any(held) or not all(_has_value(values, n) for n in self.all_of):
            return None
        if not all(held):
            return "some"
        return (
            "phrase" if all(_has_value(values, n) for n in self.neighbours) else "all"
        )


def _list_typed(query: SearchQuery) -> list[str]:
    return [term for word in query.words for term in word.terms]


def _hash_forms(word: Iterable[str]) -> frozenset[int]:
    stem = terms.build_stemmer()
    forms = {form for term in word for form in (term, stem(term))}
    forms |= {terms.build_date_term(each) for each in word}
    return frozenset(map(hash_term, forms))


def _has_value(values: Numbers, wanted: int) -> bool:
    at = int(values.searchsorted(values.dtype.type(wanted)))
    return at < len(values) and int(values[at]) == wanted
