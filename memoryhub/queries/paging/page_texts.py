"""Texts of pages, for previews in lists. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoryhub.journal import texts
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.state.pages import Location, PageEntry
from memoryhub.kernel.state.paging import Paging
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.events import get_rows_at
from memoryhub.vault.keys import cold_payloads


def get_texts(
    thread: Thread, places: Mapping[str, Location]
) -> dict[str, tuple[OpenedPage, int]]:
    """Open the texts of pages, by page, each with its level; erased texts are left out.

    `thread` comes with its subject. One query per thread of the lineage with texts to
    open, and one for erased texts; no query without pages.
    """
    found = texts.open_texts(thread, [*places.values()]) if places else {}
    return {
        page_id: (found[place], place.level)
        for page_id, place in places.items()
        if place in found
    }


def get_near_texts(
    thread: Thread, places: Mapping[str, Location]
) -> dict[str, tuple[OpenedPage, int]]:
    """Open texts as `get_texts` does, but fetch nothing from cold storage.

    One query more than `get_texts`.
    """
    rows = get_rows_at(
        {(place.thread, place.seq) for place in places.values()}, content=True
    )
    near = {
        address
        for address, row in rows.items()
        if row.payload is not None
        and not cold_payloads.is_reference(bytes(row.payload))
    }
    return get_texts(
        thread,
        {
            page_id: place
            for page_id, place in places.items()
            if (place.thread, place.seq) in near
        },
    )


def list_held_entries(paging: Paging, page_ids: Iterable[str]) -> dict[str, PageEntry]:
    """Return the entries of these pages that the state holds. No query."""
    found = {}
    for page_id in page_ids:
        page = paging.frames.get(page_id) or paging.hot.get(page_id)
        entry = page.entry if page else paging.tlb.find(page_id)
        if entry is not None:
            found[page_id] = entry
    return found
