"""Recall: selection of earlier texts that a turn brings along. Never writes.

See decision 59.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from memoryhub.journal import texts
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.context import recalls
from memoryhub.kernel.context.contexts import Texts
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.recalls import (
    ELSEWHERE,
    ELSEWHERE_EXCHANGE,
    EXCHANGE,
    SEARCH,
    Related,
)
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.messages.words import render_words
from memoryhub.kernel.packing import prefetching, selection
from memoryhub.kernel.packing.packing import PackingInput
from memoryhub.kernel.packing.prefetching import Prefetchable
from memoryhub.kernel.search.ranking import SearchScope
from memoryhub.kernel.state import pages
from memoryhub.kernel.state.pages import FULL, Location, PageEntry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.turns import searches
from memoryhub.models.pages import Page
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.search import hit_exchanges, searching

#: Number of texts opened at once for a turn, enough for a manifest; maximum number of
#: texts per turn; minimum tokens of a text with its heading line.
LEAST, MOST, LEAST_TOKENS = 24, 160, 25
#: Newest summaries of a thread that are looked at, since the first may be deleted.
SUMMARIES = 16
#: Opening stops once the opened texts exceed the room by this factor.
AMPLE = 1.5


def add_related(
    thread: Thread, state: ThreadState, wanted: PackingInput, shown: Texts
) -> PackingInput:
    """Return `wanted` with texts related to the newest message of the exchange.

    Texts without a word of the message take a quarter of the tokens, or all of them if
    the message refers to earlier conversation. The queries of a search, and those of
    `list_prefetchable`; opens no text.
    """
    newest = wanted.newest[0] if wanted.newest else None
    asking = newest and shown.get(newest.full or newest.location)
    if asking is None:
        return wanted
    question, tokens = render_words(asking.message), wanted.recall_tokens
    first = prefetching.choose_pages(
        list_prefetchable(state), selection.list_shown_places(wanted)
    )
    there = {each.place for each in first}
    found = _list_related(thread, state, wanted, question)
    return replace(
        wanted,
        related=(*first, *(each for each in found if each.place not in there)),
        prefetch_tokens=tokens
        if recalls.has_reminder_phrase(question)
        else tokens // 4,
    )


def list_prefetchable(state: ThreadState) -> list[Prefetchable]:
    """List the pages of any tier that an exchange may need, best first.

    One query for the newest summary, and one for each ancestor while there is none; two
    more, and those of a fork, if a page is not at hand.
    """
    paging = state.paging
    found = prefetching.list_wanted_pages(paging, _list_newest_summaries(state))
    entries = dict[str, PageEntry]()
    for name, _ in found:
        at = paging.frames.get(name) or paging.hot.get(name)
        entry = at.entry if at else paging.tlb.find(name)
        if entry is not None:
            entries[name] = entry
    away = [name for name, _ in found if name not in entries]
    if away:
        entries |= StoredPageTable(state, ProjectedRows()).list_entries(away)
    return prefetching.list_pages(found, entries)


def _list_newest_summaries(state: ThreadState) -> list[str]:
    """Return the id of the newest live summary, or nothing."""
    inherited = ((part.thread, part.up_to_seq) for part in reversed(state.lineage))
    gone = set[str]()
    for thread, up_to in ((state.id, state.seq), *inherited):
        rows = Page.objects.filter(thread_id=thread, type="summary", seq__lte=up_to)
        for each in pages.OBSERVATION_IDS:
            rows = rows.exclude(page_id__startswith=each)
        newest = rows.order_by("-seq").values_list("page_id", "deleted_seq")
        for name, ended in newest[:SUMMARIES]:
            if name not in gone and (ended is None or ended > up_to):
                return [name]
            gone.add(name)
    return []


def open_related(
    thread: Thread, wanted: PackingInput, *, now: datetime | None
) -> tuple[PackingInput, dict[Location, OpenedPage]]:
    """Open the related texts, best first, until they amply fill the room.

    Returns `wanted` with the related texts that still exist, and the opened texts with
    those that their marks quote, and lower levels of texts that may be shortened. Two
    queries per 24 texts, those of marks, and two for lower levels.
    """
    found, room = dict[Location, OpenedPage](), wanted.recall_tokens
    left = AMPLE * room
    for start in range(0, len(wanted.related), LEAST):
        batch = wanted.related[start : start + LEAST]
        found |= texts.open_texts(thread, [each.place for each in batch])
        there = (each for each in batch if each.place in found)
        sizes = (
            estimate_tokens(recalls.render_entry(found[each.place], each.source))
            for each in there
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
        found |= texts.open_texts(thread, [*dict.fromkeys(tell)])
        # A text that a mark quotes may have been erased meanwhile.
        related = [
            each
            for each in related
            if all(mark.is_told_by(found) for mark in each.marks)
        ]
    lower = [at for each in related for at in each.lower]
    found |= texts.open_texts(thread, lower) if lower else {}
    return replace(wanted, related=tuple(related)), found


def _list_related(
    thread: Thread, state: ThreadState, wanted: PackingInput, question: str
) -> list[Related]:
    """List texts outside the request related to the newest message, best first.

    Each found message comes with question and answer of its exchange.

    Texts that the request shows whole are left out, and texts of the running exchange.
    """
    since = searches.get_exchange_seq(state)
    shown, found = selection.list_shown_places(wanted), list[Related]()
    most = max(LEAST, min(MOST, wanted.recall_tokens // LEAST_TOKENS))
    subject = state.paging.settings.recall == "subject"
    # An anonymous subject's other threads may belong to anybody.
    everywhere = subject and not thread.subject.anonymous
    places, scope = searching.find_places(
        thread, question, seq=state.seq, everywhere=everywhere
    )
    for at in places:
        place = Location(at.thread, at.seq, FULL)
        running = at.thread == thread.id and at.seq >= since
        if not running and place not in shown:
            found.append(Related(place, SEARCH if at.own else ELSEWHERE))
        if len(found) >= most:
            break
    return _add_halves(found, shown, scope)


def _add_halves(
    found: list[Related], shown: Collection[Location], scope: SearchScope
) -> list[Related]:
    """Put question and answer of the best message behind it, of others at the end.

    So halves of others take only the room that found texts leave: see decision 59. An
    exchange that a fork has split keeps only what was found. One query.
    """
    spans = hit_exchanges.map_exchange_seqs(each.place[:2] for each in found)
    halves = list[Related]()
    for each in found:
        source = EXCHANGE if each.source == SEARCH else ELSEWHERE_EXCHANGE
        for seq in spans.get(each.place[:2], ()):
            place = Location(each.place.thread, seq or 0, FULL)
            if seq and place not in shown and scope.is_visible(place.thread, seq):
                halves.append(Related(place, source, beside=each.place))
    best = [half for half in halves if half.beside == found[0].place]
    order = {each.place: each for each in (*found[:1], *best)}
    # A half that was found itself stays where it is, as a found text.
    order.update((each.place, each) for each in found)
    for each in halves:
        order.setdefault(each.place, each)
    return [*order.values()]
