"""Recall use: whether the pages that turns bring along unasked are used. Pure.

A recalled page counts as used if somebody refers to the page or asks for it within
three turns; else it counts as wasted.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.paging import Paging, RecalledPage, add_counts

#: Turns in which a recalled text may be used.
TURNS = 3


def note_recall(paging: Paging, event: TurnPacked) -> Paging:
    """Note the recall of a request, in the first turn of its exchange."""
    recall = event.recall
    if recall is None:
        return paging._replace(in_recall=())
    paging = paging._replace(
        # Fetching the whole of a shortened text is a page fault like any other.
        in_recall=tuple(
            each.page_id for each in recall.texts if each.page_id and not each.level
        )
    )
    if recall.turn != event.turn:
        return paging
    found = [
        RecalledPage(each.page_id or "", each.source, event.turn)
        for each in recall.texts
    ]
    paging = _count_recalls(paging, "brought", found)
    # A page of another thread cannot be fetched here: its use cannot be seen.
    awaited = tuple(each for each in found if each.page_id)
    return paging._replace(brought=paging.brought + awaited)


def note_use(paging: Paging, page_id: str) -> Paging:
    """Note that somebody has referred to a page, or asked for it."""
    found = [
        each for each in paging.brought if each.page_id == page_id and not each.used
    ]
    if not found:
        return paging
    brought = tuple(
        each._replace(used=True) if each in found else each for each in paging.brought
    )
    return _count_recalls(paging._replace(brought=brought), "used", found)


def count_wasted(paging: Paging, turn: int, *, continues: bool) -> Paging:
    """Count the recalled pages that were not used in time, as a turn begins."""
    if not continues and paging.in_recall:
        paging = paging._replace(in_recall=())
    if not paging.brought:
        return paging
    kept = tuple(each for each in paging.brought if turn - each.turn < TURNS)
    wasted = (each for each in paging.brought if each not in kept and not each.used)
    return _count_recalls(paging, "wasted", wasted)._replace(brought=kept)


def forget_page(paging: Paging, page_id: str) -> Paging:
    """Forget a page that was deleted, or whose text was replaced."""
    if page_id not in paging.in_recall and not paging.brought:
        return paging
    return paging._replace(
        brought=tuple(each for each in paging.brought if each.page_id != page_id),
        in_recall=tuple(each for each in paging.in_recall if each != page_id),
    )


def _count_recalls(paging: Paging, what: str, found: Iterable[RecalledPage]) -> Paging:
    names = [f"recall.{what}.{each.source}" for each in found]
    return paging._replace(counts=add_counts(paging.counts, names))
