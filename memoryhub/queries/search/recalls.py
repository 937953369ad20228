"""Recall: which earlier texts a turn may bring along unasked. Never writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from memoryhub.journal.writing import texts
from memoryhub.kernel.levels import recalls
from memoryhub.kernel.levels.contexts import Texts
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.recalls import ELSEWHERE, SEARCH, Related
from memoryhub.kernel.levels.tokens import estimate
from memoryhub.kernel.messages.words import words
from memoryhub.kernel.packing import selection
from memoryhub.kernel.packing.packing import Wanted
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.turns import searches
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.search import searching

#: Texts that are opened at once for one turn, which is enough for a manifest, and in
#: all, of which each takes so many tokens with the line about it.
LEAST, MOST, LEAST_TOKENS = 24, 160, 25
#: How much longer than the room they are together before no more are opened.
AMPLE = 1.5


def looking_back(
    thread: Thread, state: ThreadState, wanted: Wanted, shown: Texts
) -> Wanted:
    """Return the same with what its exchange may be brought, by its newest message.

    What no word of it has found takes a quarter of the tokens, or all if the message
    speaks of what was said before. The queries of a search; opens nothing.
    """
    newest = wanted.newest[0] if wanted.newest else None
    asking = newest and shown.get(newest.full or newest.location)
    if asking is None:
        return wanted
    question, tokens = words(asking.message), wanted.recall_tokens
    first = selection.prefetched(wanted, state)
    there = {each.place for each in first}
    found = _list_related(thread, state, wanted, question)
    return replace(
        wanted,
        related=(*first, *(each for each in found if each.place not in there)),
        prefetch_tokens=tokens if recalls.speaks_of_before(question) else tokens // 4,
    )


def opened(
    thread: Thread, wanted: Wanted, *, now: datetime | None
) -> tuple[Wanted, dict[Location, Opened]]:
    """Open what may be brought, best first, until it would fill the room amply.

    Returns what is wanted with those that are there, and them, with what they are
    marked by. Two queries for 24, and those of marks.
    """
    found, room = dict[Location, Opened](), wanted.recall_tokens
    left = AMPLE * room
    for start in range(0, len(wanted.related), LEAST):
        batch = wanted.related[start : start + LEAST]
        found |= texts.opened(thread, [each.place for each in batch])
        there = (each for each in batch if each.place in found)
        sizes = (
            estimate(recalls.entry(found[each.place], each.source)) for each in there
        )
        left -= sum(size for size in sizes if size <= room)
        if left < 0:
            break
    related = [each for each in wanted.related if each.place in found]
    if now is not None:
        places = [each.place[:2] for each in related]
        marks = standing.list_marks(thread.subject, places, at=now)
        related = [
            each._replace(marks=marks.get(each.place[:2], ())) for each in related
        ]
        tell = [at for each in related for mark in each.marks for at in mark.places]
        found |= texts.opened(thread, [*dict.fromkeys(tell)])
        # What a mark is told by may be erased meanwhile.
        related = [
            each
            for each in related
            if all(mark.is_told_by(found) for mark in each.marks)
        ]
    return replace(wanted, related=tuple(related)), found


def _list_related(
    thread: Thread, state: ThreadState, wanted: Wanted, question: str
) -> list[Related]:
    """List the texts away that are most about the user's newest message, best first.

    Those that the request shows whole anyway are left out, and those of its exchange.
    """
    since = searches.exchange_seq(state)
    shown, found = selection.shown(wanted), list[Related]()
    most = max(LEAST, min(MOST, wanted.recall_tokens // LEAST_TOKENS))
    subject = state.paging.settings.recall == "subject"
    # Of nobody in particular, other threads may be anybody's.
    everywhere = subject and not thread.subject.anonymous
    for at in searching.iter_places(
        thread, question, seq=state.seq, everywhere=everywhere
    ):
        place = Location(at.thread, at.seq, FULL)
        running = at.thread == thread.id and at.seq >= since
        if not running and place not in shown:
            found.append(Related(place, SEARCH if at.own else ELSEWHERE))
        if len(found) >= most:
            break
    return found
