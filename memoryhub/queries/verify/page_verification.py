"""Verification of the page table's rows against the journal. Never writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from memoryhub.journal.rows.page_rows import PURGED, PageRows
from memoryhub.journal.rows.rows import EvictedPageRow, LevelRow, PageRow
from memoryhub.journal.rows.statements import RowCounts
from memoryhub.kernel.state.erased import ErasedPlaces
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.models.events import Event
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.threads import Thread

_PAGE = PageRow._fields
_LEVEL = LevelRow._fields
_EVICTED = EvictedPageRow._fields


@dataclass(slots=True)
class PageWalk:
    """Checks of one thread's pages, by batches; keeps only pages that change later."""

    pages: int = 0
    levels: int = 0
    evicted: int = 0
    #: Stored rows that differ from their creation: a later event must change each row.
    moved: dict[str, PageRow] = field(default_factory=dict)
    #: Newest row of each page that changed.
    changed: dict[str, PageRow] = field(default_factory=dict)
    #: Pages that were deleted together with their texts.
    deleted: set[str] = field(default_factory=set)
    #: Levels without a stored row: a later event must erase each level.
    missing: set[LevelRow] = field(default_factory=set)

    def compare(self, thread: UUID, made: PageRows) -> str | None:
        """Compare the rows of a batch of events; return the wrong table, or None."""
        if what := self._compare_fresh(thread, made.fresh):
            return what
        self._compare_levels(thread, made.levels)
        if not self._has_evicted(thread, made.evicted):
            return "evicted_page_rows"
        for (_, page_id), row in made.changed.items():
            earlier = self.changed.get(page_id)
            self.changed[page_id] = row._replace(seq=earlier.seq) if earlier else row
        self.deleted |= {page_id for _, page_id in made.deleted}
        return None

    def _compare_fresh(self, thread: UUID, made: list[PageRow]) -> str | None:
        if not made:
            return None
        rows = Page.objects.filter(
            thread_id=thread, seq__range=(made[0].seq, made[-1].seq)
        )
        stored = {
            row.page_id: row for row in map(_build_page, rows.values_list(*_PAGE))
        }
        for row in made:
            found = stored.get(row.page_id)
            if found is None:
                return "page_rows"
            if found != row:
                self.moved[row.page_id] = found
        self.pages += len(made)
        return None

    def _compare_levels(self, thread: UUID, made: list[LevelRow]) -> None:
        if not made:
            return
        rows = PageLevel.objects.filter(
            thread_id=thread, page_id__in={row.page_id for row in made}
        )
        stored = {LevelRow(*row) for row in rows.values_list(*_LEVEL)}
        self.levels += len(made)
        self.missing.update(row for row in made if row not in stored)

    def _has_evicted(self, thread: UUID, made: list[EvictedPageRow]) -> bool:
        if not made:
            return True
        rows = EvictedPage.objects.filter(
            thread_id=thread,
            page__in={row.page for row in made},
            seq__range=(made[0].seq, made[-1].seq),
        )
        self.evicted += len(made)
        return {*rows.values_list(*_EVICTED)} == {*made}

    def finish(
        self,
        thread: Thread,
        counts: RowCounts,
        *,
        inherited_slots: int,
        erased: ErasedPlaces,
    ) -> str | None:
        """Compare changed rows and row counts; return the wrong table, or None."""
        rows = Page.objects.filter(thread=thread, page_id__in=[*self.changed])
        stored = {
            row.page_id: row for row in map(_build_page, rows.values_list(*_PAGE))
        }
        same = {page_id: row._replace(seq=0) for page_id, row in stored.items()}
        wanted = {name: row._replace(seq=0) for name, row in self.changed.items()}
        if same != wanted or not self.moved.keys() <= wanted.keys():
            return "page_rows"
        if _has_kept_texts(thread, self.deleted):
            return "payload"
        homes = ((row.source or thread.id, row.seq) for row in self.missing)
        if not all(erased.has_place(*home) for home in homes):
            return "level_rows"
        own = {
            row.page_id
            for row in stored.values()
            if row.slot is not None and row.slot >= inherited_slots
        }
        own |= _list_created(thread, [row.page_id for row in stored.values()])
        inherited = len(stored) - len(own)
        if counts.pages != self.pages + inherited:
            return "page_rows"
        if counts.evicted_pages != self.evicted:
            return "evicted_page_rows"
        levels = self.levels - len(self.missing)
        return None if counts.levels == levels else "level_rows"


def _has_kept_texts(thread: Thread, deleted: Collection[str]) -> bool:
    """Tell whether a deleted page still has a text."""
    texts = Event.objects.filter(
        thread=thread, page__in=deleted, type__in=PURGED, erased_by__isnull=True
    )
    return bool(deleted) and texts.exists()


def _list_created(thread: Thread, page_ids: list[str]) -> set[str]:
    """List the pages that this thread itself created."""
    events = Event.objects.filter(
        thread=thread, page__in=page_ids, type=PageCreated.event_type
    )
    return {str(page_id) for page_id in events.values_list("page", flat=True)}


def _build_page(values: tuple[Any, ...]) -> PageRow:
    return PageRow(*values)
