"""Term filters: threads that can't match a query, told by hashes. Never writes.

A filter leaves out no thread that matches. Other threads may pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from memoryhub.journal.log import thread_terms
from memoryhub.journal.log.thread_terms import hash_term
from memoryhub.kernel.search import terms
from memoryhub.kernel.search.arrays import Numbers
from memoryhub.kernel.search.parsing import SearchQuery
from memoryhub.models.threads import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFilter:
    """Hashes of a query: a matching thread has one of `any_of`, and all of `all_of`."""

    any_of: frozenset[int]
    all_of: frozenset[int]

    @classmethod
    def build(cls, query: SearchQuery) -> TermFilter:
        """Build the filter of a query, from its terms, their stems and dates."""
        stem = terms.build_stemmer()
        every = {term for word in query.wanted for term in word.terms}
        every = (every - terms.STOP) or every
        forms = {form for term in every for form in (term, stem(term))}
        forms |= {terms.build_date_term(each) for each in every}
        return cls(
            any_of=frozenset(map(hash_term, forms)),
            all_of=frozenset(hash_term(w) for phrase in query.phrases for w in phrase),
        )

    def list_hopeless_threads(self, threads: Sequence[Thread]) -> Collection[UUID]:
        """List the threads that can't match, of threads that come with their subjects.

        Two queries, or none where no thread moved.
        """
        if not self.any_of:
            return ()
        found = thread_terms.read_hashes(threads)
        return {thread for thread, each in found.items() if not self._can_match(each)}

    def _can_match(self, values: Numbers) -> bool:
        return any(_has_value(values, each) for each in self.any_of) and all(
            _has_value(values, each) for each in self.all_of
        )


def _has_value(values: Numbers, wanted: int) -> bool:
    at = int(values.searchsorted(values.dtype.type(wanted)))
    return at < len(values) and int(values[at]) == wanted
