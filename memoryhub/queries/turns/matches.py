"""Matches: earlier texts that match a turn's question, and their presence.

Never writes. Finds no text written after the request was packed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from typing import Literal

from memoryhub.journal import texts
from memoryhub.kernel.messages.message import Message
from memoryhub.kernel.messages.reading import read
from memoryhub.kernel.messages.words import render_parts
from memoryhub.kernel.search import parsing
from memoryhub.kernel.search.excerpts import (
    Excerpt,
    list_question_words,
    list_shared_words,
)
from memoryhub.kernel.search.parsing import Filters, SearchQuery
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.models.threads import Thread
from memoryhub.queries.search import searching
from memoryhub.queries.search.hits import SearchHit
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.queries.turns.exchanges import Exchange
from memoryhub.queries.turns.turns import ShownRequest, UsedText

#: Maximum number of matches returned.
BEST = 10
#: Number of characters of a question used for the search.
READ = 20_000
#: One sentence that asks; possessive, since a text may have millions of characters.
_ASKING = re.compile(r"(?:[^.!?\n]|[.!?](?=\S))*+\?")
#: Fewest words of which a question's form can be told.
_FORM = 4
MatchStanding = Literal["in", "shortened", "out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionMatch:
    """A page that matches the question, and its presence in the request."""

    #: Rank from 1, best first.
    rank: int
    page_id: str
    score: float
    excerpt: Excerpt
    standing: MatchStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionMatches:
    """The ten best matches, best first, and the total number of matches."""

    items: tuple[QuestionMatch, ...] = ()
    total: int = 0
    #: Whether the exchange has a question with words.
    has_question: bool = True
    #: Whether all texts were searched; False while many are not indexed yet.
    complete: bool = True

    def list_with_standing(self, standing: MatchStanding) -> tuple[QuestionMatch, ...]:
        return tuple(each for each in self.items if each.standing == standing)


def get_matches(
    thread: Thread, shown: ShownRequest, exchange: Exchange
) -> QuestionMatches:
    """Return the best matches for the exchange's question, as of its packing.

    The question itself is left out, messages that can hold no answer, and the user's
    messages of the question's form. A search
    of the thread whose journal has the turn: five queries where no thread moved, and
    two for the texts. Where more than 5,000 events are not indexed yet, 100 texts more
    are indexed and searched. `thread` comes with its subject.
    """
    query = build_query(exchange.question_text)
    if exchange.question is None or not query.words:
        return QuestionMatches(has_question=False)
    home = shown.recorded.home
    row = thread if home.id == thread.id else home
    row.subject = thread.subject
    request = SearchRequest(query=query, limit=2 * BEST + 1, hasty=True)
    found = searching.search_thread(row, request, seq=shown.event.as_of_seq)
    itself = exchange.question.index
    others = [hit for hit in found.items if hit.slot != itself]
    empty = _list_answerless(row, others, query, exchange.question_text)
    others = [hit for hit in others if hit not in empty]
    standings = _map_standings(shown.used)
    return QuestionMatches(
        items=tuple(
            QuestionMatch(
                rank=rank,
                page_id=hit.page or "",
                score=hit.score,
                excerpt=hit.excerpt,
                standing=standings.get(hit.page or "", "out"),
            )
            for rank, hit in enumerate(others[:BEST], start=1)
        ),
        total=found.total - (len(found.items) - len(others)),
        complete="indexing" not in found.degraded,
    )


def _list_answerless(
    row: Thread, found: Iterable[SearchHit], query: SearchQuery, question: str
) -> list[SearchHit]:
    """List the messages among the hits that hold no answer. Two queries."""
    places = {
        Location(hit.thread, hit.seq, FULL): hit
        for hit in found
        if hit.slot is not None
    }
    return [
        places[place]
        for place, text in texts.open_texts(row, [*places]).items()
        if has_no_answer(message := read(text.content), query)
        or (places[place].role == "user" and has_same_form(message, question))
    ]


def has_no_answer(message: Message, query: SearchQuery) -> bool:
    """Tell whether a message can hold no answer to a question. Pure.

    Such are messages that only ask, that say nothing beyond the question's words, or
    that only call tools: the arguments of a call are no speech.
    """
    if message.results or any(part.kind != "text" for part in message.parts):
        return False
    terms = {term for word in query.words for term in word.spoken}
    text = render_parts(message).strip()
    if _ASKING.fullmatch(text):
        return True
    words = list_question_words(text)
    return len(list_shared_words(words, " ".join(terms))) == len(words)


def has_same_form(message: Message, question: str) -> bool:
    """Tell whether a message asks for the same as a question, of another thing. Pure.

    Both begin and end alike, for two thirds of the shorter text's words or more.
    """
    shorter, longer = sorted(
        (text[:READ].casefold().split() for text in (question, render_parts(message))),
        key=len,
    )
    alike = _count_alike(shorter, longer) + _count_alike(shorter[::-1], longer[::-1])
    return len(shorter) >= _FORM and 3 * alike >= 2 * len(shorter)


def _count_alike(first: list[str], second: list[str]) -> int:
    """Count the words up to the first that differs."""
    same = map(eq, first, second)
    return sum(takewhile(bool, same))


def build_query(question: str) -> SearchQuery:
    """Build the query of a question's words; no word acts as a filter. Pure."""
    words = parsing.list_words(question[:READ])[: parsing.MOST_TERMS]
    return SearchQuery(words=words, filters=Filters(kinds=searching.FETCHED))


def _map_standings(used: Iterable[UsedText]) -> dict[str, MatchStanding]:
    """Map pages to their presence in the request; a page only named is not in."""
    found: dict[str, MatchStanding] = {}
    for each in used:
        if each.cut != 0:
            whole = each.whole or found.get(each.page_id) == "in"
            found[each.page_id] = "in" if whole else "shortened"
    return found
