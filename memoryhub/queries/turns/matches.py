"""Matches: what was said before that fits a turn's question best, and was it in.

Never writes. Finds nothing that was said after the request was packed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from memoryhub.kernel.search import parsing
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.kernel.search.parsing import Filters, SearchQuery
from memoryhub.models.threads import Thread
from memoryhub.queries.search import searching
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.queries.turns.exchanges import Exchange
from memoryhub.queries.turns.turns import Shown, Used

#: Matches that are told.
BEST = 10
#: Characters of a question whose words are looked for.
READ = 20_000
Standing = Literal["in", "shortened", "out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A page that fits the question, and how the request showed it."""

    #: From 1 on, the best first.
    rank: int
    page_id: str
    score: float
    excerpt: Excerpt
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The ten best, the best first, and how many there are."""

    items: tuple[Match, ...] = ()
    total: int = 0
    #: Something was asked that has words.
    has_question: bool = True

    def standing(self, standing: Standing) -> tuple[Match, ...]:
        return tuple(each for each in self.items if each.standing == standing)


def get_matches(thread: Thread, shown: Shown, exchange: Exchange) -> Matches:
    """Return what fits the exchange's question best, as of when it was packed.

    The question itself is left out. A search of the thread whose journal has the turn:
    five queries where nothing is new. `thread` comes with its subject.
    """
    query = words_of(exchange.question_text)
    if exchange.question is None or not query.words:
        return Matches(has_question=False)
    home = shown.recorded.home
    row = thread if home.id == thread.id else home
    row.subject = thread.subject
    request = SearchRequest(query=query, limit=BEST + 1)
    found = searching.search_thread(row, request, seq=shown.event.as_of_seq)
    itself = exchange.question.index
    others = [hit for hit in found.items if hit.slot != itself]
    standings = _standings(shown.used)
    return Matches(
        items=tuple(
            Match(
                rank=rank,
                page_id=hit.page or "",
                score=hit.score,
                excerpt=hit.excerpt,
                standing=standings.get(hit.page or "", "out"),
            )
            for rank, hit in enumerate(others[:BEST], start=1)
        ),
        total=found.total - (len(found.items) - len(others)),
    )


def words_of(question: str) -> SearchQuery:
    """Return the query of a question's words: no part of it is a filter. Pure."""
    words = parsing.words_of(question[:READ])[: parsing.MOST_TERMS]
    return SearchQuery(words=words, filters=Filters(kinds=searching.FETCHED))


def _standings(used: Iterable[Used]) -> dict[str, Standing]:
    """By page, how the request shows it; one that is only named is not in."""
    found: dict[str, Standing] = {}
    for each in used:
        if each.cut != 0:
            whole = each.whole or found.get(each.page_id) == "in"
            found[each.page_id] = "in" if whole else "shortened"
    return found
