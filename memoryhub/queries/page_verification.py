"""The page table's rows compared with what the journal leads to. Never writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from memoryhub.journal.page_rows import TEXTS, PageRows
from memoryhub.journal.rows import LevelRow, PageRow
from memoryhub.kernel.page_events import PageCreated
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread

_PAGE = PageRow._fields
_LEVEL = LevelRow._fields


@dataclass(slots=True)
class PageWalk:
    """One thread's pages, batch by batch; only those that change later are kept."""

    pages: int = 0
    levels: int = 0
    #: Stored rows that are not as they were made: they must have changed since.
    moved: dict[str, PageRow] = field(default_factory=dict)
    #: The newest of each page that changed.
    changed: dict[str, PageRow] = field(default_factory=dict)

    def compare(self, thread: UUID, made: PageRows) -> str | None:
        """What is wrong with the rows of a batch of events."""
        if what := self._fresh(thread, made.fresh) or self._levels(thread, made.levels):
            return what
        for (_, page_id), row in made.changed.items():
            earlier = self.changed.get(page_id)
            self.changed[page_id] = row._replace(seq=earlier.seq) if earlier else row
        return None

    def _fresh(self, thread: UUID, made: list[PageRow]) -> str | None:
        if not made:
            return None
        rows = Page.objects.filter(
            thread_id=thread, seq__range=(made[0].seq, made[-1].seq)
        )
        stored = {row.page_id: row for row in map(_page, rows.values_list(*_PAGE))}
        for row in made:
            found = stored.get(row.page_id)
            if found is None:
                return "page_rows"
            if found != row:
                self.moved[row.page_id] = found
        self.pages += len(made)
        return None

    def _levels(self, thread: UUID, made: list[LevelRow]) -> str | None:
        if not made:
            return None
        rows = PageLevel.objects.filter(
            thread_id=thread, page_id__in={row.page_id for row in made}
        )
        stored = {LevelRow(*row) for row in rows.values_list(*_LEVEL)}
        self.levels += len(made)
        return None if stored.issuperset(made) else "level_rows"

    def finish(self, thread: Thread, *, inherited_slots: int) -> str | None:
        """What is wrong with the rows that changed, and with their number."""
        rows = Page.objects.filter(thread=thread, page_id__in=[*self.changed])
        stored = {row.page_id: row for row in map(_page, rows.values_list(*_PAGE))}
        same = {page_id: row._replace(seq=0) for page_id, row in stored.items()}
        wanted = {name: row._replace(seq=0) for name, row in self.changed.items()}
        if same != wanted or not self.moved.keys() <= wanted.keys():
            return "page_rows"
        if _kept_texts(thread, self.changed.values()):
            return "payload"
        own = {
            row.page_id
            for row in stored.values()
            if row.slot is not None and row.slot >= inherited_slots
        }
        own |= _created(thread, [row.page_id for row in stored.values()])
        inherited = len(stored) - len(own)
        head = thread.head_seq
        pages = Page.objects.filter(thread=thread, seq__lte=head).count()
        levels = PageLevel.objects.filter(thread=thread).count()
        if pages != self.pages + inherited:
            return "page_rows"
        return None if levels == self.levels else "level_rows"


def _kept_texts(thread: Thread, changed: Iterable[PageRow]) -> bool:
    """Whether a deleted page still has a text."""
    deleted = [row.page_id for row in changed if row.deleted_seq is not None]
    texts = Event.objects.filter(
        thread=thread, page__in=deleted, type__in=TEXTS, erased_by__isnull=True
    )
    return bool(deleted) and texts.exists()


def _created(thread: Thread, page_ids: list[str]) -> set[str]:
    """Those of the pages that this thread made itself."""
    events = Event.objects.filter(
        thread=thread, page__in=page_ids, type=PageCreated.event_type
    )
    return {str(page_id) for page_id in events.values_list("page", flat=True)}


def _page(values: tuple[Any, ...]) -> PageRow:
    return PageRow(*values)
