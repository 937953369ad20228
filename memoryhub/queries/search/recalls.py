"""Recall: selection of earlier texts that a turn brings along. Never writes.

See decision 59.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice

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
from memoryhub.kernel.search import parsing
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
#: Most batches of that number looked through for texts that are no copies.
BATCHES = 10
#: Newest summaries of a thread that are looked at, since the first may be deleted.
SUMMARIES = 16
#: Opening stops once the opened texts exceed the room by this factor.
AMPLE = 1.5
OpenedTexts = dict[Location, OpenedPage]


def add_related(
    thread: Thread, state: ThreadState, wanted: PackingInput, shown: Texts
) -> tuple[PackingInput, OpenedTexts]:
    """Return `wanted` with texts related to the newest message, and those opened.

    Texts without a word of the message take a quarter of the tokens, or all of them if
    the message refers to earlier conversation. The queries of a search, those of
    `list_prefetchable`, and two per 24 found texts.
    """
    newest = wanted.newest[0] if wanted.newest else None
    asking = newest and shown.get(newest.full or newest.location)
    if asking is None:
        return wanted, {}
    question, tokens = render_words(asking.message), wanted.recall_tokens
    first = prefetching.choose_pages(
        list_prefetchable(state), selection.list_shown_places(wanted)
    )
    there = {each.place for each in first}
    found, opened = list[Related](), OpenedTexts()
    # A text without words is related to none: the thread is not even indexed for it.
    if parsing.list_words(question):
        found, opened = _list_related(thread, state, wanted, question)
    wanted = replace(
        wanted,
        related=(*first, *(each for each in found if each.place not in there)),
        prefetch_tokens=tokens
        if recalls.has_reminder_phrase(question)
        else tokens // 4,
    )
    return wanted, opened


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
    thread: Thread, wanted: PackingInput, opened: OpenedTexts, *, now: datetime | None
) -> tuple[PackingInput, OpenedTexts]:
    """Open the related texts, best first, until they amply fill the room.

    Returns `wanted` with the related texts that still exist, and the opened texts with
    those that their marks quote, and lower levels of texts that may be shortened. Two
    queries per 24 texts not yet `opened`, those of marks, and two for lower levels.
    """
    found, room = {**opened}, wanted.recall_tokens
    left = AMPLE * room
    for start in range(0, len(wanted.related), LEAST):
        batch = wanted.related[start : start + LEAST]
        if new := [each.place for each in batch if each.place not in found]:
            found |= texts.open_texts(thread, new)
        left -= _count_filling(
            [each for each in batch if each.place in found], found, room
        )
        if left < 0:
            break
    related = _drop_copied_halves(
        [each for each in wanted.related if each.place in found], found
    )
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


def _count_filling(related: Sequence[Related], found: Texts, room: int) -> int:
    """Estimate the tokens of those related texts that a recall of the room can hold."""
    sizes = (
        estimate_tokens(recalls.render_entry(found[each.place], each.source))
        for each in related
    )
    return sum(size for size in sizes if size <= room)


def _drop_copied_halves(related: Sequence[Related], found: Texts) -> list[Related]:
    """Drop questions and answers beside found texts that say what another text says."""
    heard, kept = set[str](), list[Related]()
    for each in related:
        words = _fold(found[each.place])
        if each.beside is None or not words or words not in heard:
            kept.append(each)
        heard.add(words)
    return kept


def _fold(opened: OpenedPage) -> str:
    """Return the words of a text, its case and white space aside; empty without any."""
    return " ".join(render_words(opened.message).casefold().split())


def _list_related(
    thread: Thread, state: ThreadState, wanted: PackingInput, question: str
) -> tuple[list[Related], OpenedTexts]:
    """List texts outside the request related to the newest message, best first.

    Each found message comes with question and answer of its exchange.

    Texts that the request shows whole are left out, texts of the running exchange, and
    older copies of a text, at the place of the best: a question that was asked often
    must not push its answer out, and what was said again holds as it was said last.
    What answered a copy comes with the newest one.
    """
    since = searches.get_exchange_seq(state)
    shown = selection.list_shown_places(wanted)
    most = max(LEAST, min(MOST, wanted.recall_tokens // LEAST_TOKENS))
    subject = state.paging.settings.recall == "subject"
    # An anonymous subject's other threads may belong to anybody.
    everywhere = subject and not thread.subject.anonymous
    places, scope = searching.find_places(
        thread, question, seq=state.seq, everywhere=everywhere
    )
    candidates = (
        Related(place, SEARCH if at.own else ELSEWHERE)
        for at in places
        if (place := Location(at.thread, at.seq, FULL)) not in shown
        and not (at.thread == thread.id and at.seq >= since)
    )
    #: Texts by what they say, those without words by their places.
    copies, opened = dict[str | Location, list[Related]](), OpenedTexts()
    left = AMPLE * wanted.recall_tokens
    for _ in range(BATCHES):
        batch = [*islice(candidates, LEAST)]
        opened |= texts.open_texts(thread, [each.place for each in batch])
        fresh = list[Related]()
        for each in batch:
            if each.place in opened:
                words = _fold(opened[each.place])
                group = copies.setdefault(words or each.place, [])
                fresh += [] if group else [each]
                group.append(each)
        left -= _count_filling(fresh, opened, wanted.recall_tokens)
        if len(copies) >= most or left < 0 or len(batch) < LEAST:
            break
    return _add_halves([*copies.values()][:most], opened, shown, scope), opened


def _add_halves(
    found: list[list[Related]],
    opened: Texts,
    shown: Collection[Location],
    scope: SearchScope,
) -> list[Related]:
    """List the newest of each text's copies, with questions and answers beside them.

    Halves of the best message's exchange come right behind it, others at the end, so
    that they take only the room that found texts leave: see decision 59. An exchange
    that a fork has split keeps only what was found. One query.
    """
    newest = [max(group, key=lambda each: _get_time(opened, each)) for group in found]
    beside = {
        each.place: last
        for group, last in zip(found, newest, strict=True)
        for each in (last, *group)
    }
    spans = hit_exchanges.map_exchange_seqs(place[:2] for place in beside)
    hidden = {*shown, *beside.keys() - {each.place for each in newest}}
    halves = dict[Location, list[Related]]()
    for found_at, last in beside.items():
        source = EXCHANGE if last.source == SEARCH else ELSEWHERE_EXCHANGE
        for seq in spans.get(found_at[:2], ()):
            place = Location(found_at.thread, seq or 0, FULL)
            if seq and place not in hidden and scope.is_visible(place.thread, seq):
                half = Related(place, source, beside=last.place)
                halves.setdefault(found_at, []).append(half)
    best = halves.get(newest[0].place, []) if newest else []
    order = {each.place: each for each in (*newest[:1], *best)}
    # A half that was found itself stays where it is, as a found text.
    order.update((each.place, each) for each in newest)
    for each in chain.from_iterable(halves.values()):
        order.setdefault(each.place, each)
    return [*order.values()]


def _get_time(opened: Texts, related: Related) -> tuple[float, int]:
    at = opened[related.place].at
    return (at.timestamp() if at else 0, related.place.seq)
