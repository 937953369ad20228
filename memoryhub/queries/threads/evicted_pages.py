"""Joint events: events that evict or cite several pages at once.

Never writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, Window
from django.db.models.functions import RowNumber

from memoryhub.journal.log.chain import to_plain_body
from memoryhub.kernel.state.page_events import (
    PageEvicted,
    PagesCited,
    PagesEvicted,
    TurnRated,
)
from memoryhub.models.events import Event
from memoryhub.models.pages import EvictedPage

Body = Mapping[str, Any]
#: The thread whose journal has the event, and the event's seq there.
Place = tuple[UUID, int]
EVICTED = (PageEvicted.event_type, PagesEvicted.event_type)
#: Types of events that cite pages.
CITING = (PagesCited.event_type, TurnRated.event_type)
_JOINT: dict[str, type[PagesEvicted | PagesCited | TurnRated]] = {
    event.event_type: event for event in (PagesEvicted, PagesCited, TurnRated)
}


def split_evictions(kind: str, body: Body) -> Iterator[tuple[str, Body]]:
    """Yield an event's type and body; split pages.evicted into page.evicted bodies."""
    if kind != PagesEvicted.event_type:
        yield kind, body
        return
    yield from split_joint(kind, body)


def split_joint(kind: str, body: Body) -> Iterator[tuple[str, Body]]:
    """Yield the types and bodies of the events of single pages in a joint event."""
    for event in _JOINT[kind].model_validate(body).split():
        yield event.event_type, to_plain_body(event)


def narrow_to_page(kind: str, body: Body, page_id: str) -> Body:
    """Return the body; from a joint event only the part about this page.

    The whole body if an erasure has blanked the page's name meanwhile.
    """
    if kind not in _JOINT:
        return body
    each = (one for _, one in split_joint(kind, body))
    return next((one for one in each if one["page_id"] == page_id), body)


def list_places(
    journals: Iterable[tuple[UUID, int]],
    page_ids: Collection[str],
    *,
    newest: int,
    types: Collection[str] = (),
) -> list[tuple[Place, str]]:
    """List the places of joint events, each with a page named. One query.

    Journals are threads, each with its last valid seq. Per page and journal, the newest
    places; with `types` those of such events.
    """
    within = Q()
    for thread, up_to in journals:
        within |= Q(thread_id=thread, seq__lte=up_to)
    rank = Window(
        RowNumber(), partition_by=["thread_id", "page"], order_by=F("seq").desc()
    )
    rows = EvictedPage.objects.filter(within, page__in=sorted(page_ids))
    if types:
        of_types = Event.objects.filter(type__in=types)
        here = {"thread_id": OuterRef("thread_id"), "seq": OuterRef("seq")}
        rows = rows.filter(Exists(of_types.filter(**here)))
    found = rows.annotate(place=rank).filter(place__lte=newest)
    return [
        ((thread, seq), page)
        for thread, seq, page in found.values_list("thread_id", "seq", "page")
    ]
