"""Texts of pages as lists show their beginnings. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoryhub.journal.writing import texts
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.state.pages import Entry, Location
from memoryhub.kernel.state.paging import Paging
from memoryhub.models.threads import Thread


def get_texts(
    thread: Thread, places: Mapping[str, Location]
) -> dict[str, tuple[Opened, int]]:
    """Open the texts of pages, by page, each with its level; erased ones are left out.

    `thread` comes with its subject. One query for each thread of the lineage with any
    to open, and one for what was erased; none for no page.
    """
    found = texts.opened(thread, [*places.values()]) if places else {}
    return {
        page_id: (found[place], place.level)
        for page_id, place in places.items()
        if place in found
    }


def entries_held(paging: Paging, page_ids: Iterable[str]) -> dict[str, Entry]:
    """Return the entries of these pages, as far as the state holds them. No query."""
    found = {}
    for page_id in page_ids:
        page = paging.frames.get(page_id) or paging.hot.get(page_id)
        entry = page.entry if page else paging.tlb.find(page_id)
        if entry is not None:
            found[page_id] = entry
    return found
