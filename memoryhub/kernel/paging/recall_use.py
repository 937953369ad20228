"""Brought along: whether what turns bring along unasked is used. Pure.

Used is what somebody refers to or asks for within three turns; all else was wasted.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.paging import Brought, Paging, counted

#: Turns in which a text may be used.
TURNS = 3


def packed(paging: Paging, event: TurnPacked) -> Paging:
    """Note what a request has brought along, in the first turn of its exchange."""
    recall = event.recall
    if recall is None:
        return paging._replace(in_recall=())
    paging = paging._replace(
        in_recall=tuple(each.page_id for each in recall.texts if each.page_id)
    )
    if recall.turn != event.turn:
        return paging
    found = [
        Brought(each.page_id or "", each.source, event.turn) for each in recall.texts
    ]
    paging = _counted(paging, "brought", found)
    # A page of another thread can't be fetched here: nobody can tell of its use.
    awaited = tuple(each for each in found if each.page_id)
    return paging._replace(brought=paging.brought + awaited)


def used(paging: Paging, page_id: str) -> Paging:
    """Note that somebody has referred to a page, or asked for it."""
    found = [
        each for each in paging.brought if each.page_id == page_id and not each.used
    ]
    if not found:
        return paging
    brought = tuple(
        each._replace(used=True) if each in found else each for each in paging.brought
    )
    return _counted(paging._replace(brought=brought), "used", found)


def began(paging: Paging, turn: int, *, continues: bool) -> Paging:
    """Judge what was not used in time, as a turn begins."""
    if not continues and paging.in_recall:
        paging = paging._replace(in_recall=())
    if not paging.brought:
        return paging
    kept = tuple(each for each in paging.brought if turn - each.turn < TURNS)
    wasted = (each for each in paging.brought if each not in kept and not each.used)
    return _counted(paging, "wasted", wasted)._replace(brought=kept)


def without(paging: Paging, page_id: str) -> Paging:
    """Forget a page that was deleted, or says something else now."""
    if page_id not in paging.in_recall and not paging.brought:
        return paging
    return paging._replace(
        brought=tuple(each for each in paging.brought if each.page_id != page_id),
        in_recall=tuple(each for each in paging.in_recall if each != page_id),
    )


def _counted(paging: Paging, what: str, found: Iterable[Brought]) -> Paging:
    names = [f"recall.{what}.{each.source}" for each in found]
    return paging._replace(counts=counted(paging.counts, names))
