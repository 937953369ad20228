"""Joint evictions: events that evict several pages at once.

Never writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from memoryhub.journal.log.chain import to_plain_body
from memoryhub.kernel.state.page_events import PageEvicted, PagesEvicted
from memoryhub.models.pages import EvictedPage

Body = Mapping[str, Any]
#: The thread whose journal has the event, and the event's seq there.
Place = tuple[UUID, int]
EVICTED = (PageEvicted.event_type, PagesEvicted.event_type)


def split_evictions(kind: str, body: Body) -> Iterator[tuple[str, Body]]:
    """Yield an event's type and body; split pages.evicted into page.evicted bodies."""
    if kind != PagesEvicted.event_type:
        yield kind, body
        return
    for event in PagesEvicted.model_validate(body).split():
        yield event.event_type, to_plain_body(event)


def narrow_to_page(kind: str, body: Body, page_id: str) -> Body:
    """Return the body; from pages.evicted only the part about this page.

    The whole body if an erasure has blanked the page's name meanwhile.
    """
    if kind != PagesEvicted.event_type:
        return body
    each = (one for _, one in split_evictions(kind, body))
    return next((one for one in each if one["page_id"] == page_id), body)


def list_places(
    journals: Iterable[tuple[UUID, int]], page_ids: Collection[str], *, newest: int
) -> list[tuple[Place, str]]:
    """List the places of pages.evicted events, each with a page named. One query.

    Journals are threads, each with its last valid seq. Per page and journal, the newest
    places.
    """
    within = Q()
    for thread, up_to in journals:
        within |= Q(thread_id=thread, seq__lte=up_to)
    rank = Window(
        RowNumber(), partition_by=["thread_id", "page"], order_by=F("seq").desc()
    )
    rows = EvictedPage.objects.filter(within, page__in=sorted(page_ids))
    found = rows.annotate(place=rank).filter(place__lte=newest)
    return [
        ((thread, seq), page)
        for thread, seq, page in found.values_list("thread_id", "seq", "page")
    ]
