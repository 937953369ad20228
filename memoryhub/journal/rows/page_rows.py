"""The page table's rows: built from events, read back as entries.

A row depends on the state and the event alone, so `verify` and `rebuild` build the same
rows as the writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from memoryhub.journal.rows import statements, totals
from memoryhub.journal.rows.rows import EvictedPageRow, LevelRow, PageRow
from memoryhub.journal.rows.totals import TotalsChanges
from memoryhub.kernel.forget import erasing
from memoryhub.kernel.paging import entries
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state import page_events
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PageCompressed
from memoryhub.kernel.state.pages import (
    HINT,
    LevelEntry,
    Location,
    PageEntry,
    copy_entry_fields,
)
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads.slots import build_slot_entry
from memoryhub.models.pages import Page, PageLevel

Key = tuple[UUID, str]


@dataclass(slots=True)
class PageRows:
    """Page rows to insert, and rows to write in place of stored ones."""

    fresh: list[PageRow] = field(default_factory=list)
    changed: dict[Key, PageRow] = field(default_factory=dict)
    levels: list[LevelRow] = field(default_factory=list)
    levels_of: dict[Key, list[LevelRow]] = field(default_factory=dict)
    evicted: list[EvictedPageRow] = field(default_factory=list)
    #: Deleted pages, with the seq of each one's page.deleted.
    deleted: dict[Key, int] = field(default_factory=dict)
    #: Entries of the table once these rows are written; None for a deleted page.
    entries: dict[Key, PageEntry | None] = field(default_factory=dict)

    def add_level(self, row: LevelRow) -> None:
        self.levels.append(row)
        self.levels_of.setdefault((row.thread_id, row.page_id), []).append(row)


def project(rows: PageRows, before: ThreadState, recorded: RecordedEvent) -> None:
    """Add the rows that an event leads to, given the state before it."""
    if make := _MAKERS.get(type(recorded.event)):
        make(rows, before, recorded.event, recorded.seq)


def _add_slot_page(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    if event.page is not None:
        _add_page(rows, before, build_slot_entry(before, event, event.page), seq)


def _add_created(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    turn = before.turn_count
    entry = entries.build_created_entry(
        event, thread=before.id, seq=seq, clock=before.clock + 1, turn=turn
    )
    _add_page(rows, before, entry, seq)


def _add_page(rows: PageRows, before: ThreadState, entry: PageEntry, seq: int) -> None:
    rows.fresh.append(_build_row(before.id, entry, seq))
    rows.entries[before.id, entry.page_id] = entry


def _add_updated(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    entry = _get_entry_before(before, event)
    after = entries.build_updated_entry(entry, event, thread=before.id, seq=seq)
    if after.version != entry.version:
        rows.add_level(_build_level(before.id, entry, entry.full, home=entry.home))
    _add_change(rows, before.id, after, seq, deleted=None)


def _add_compressed(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    for made in event.levels:
        place = Location(before.id, seq, made.level)
        level = LevelEntry(place, made.tokens, made.cost)
        rows.add_level(_build_level(before.id, event, level, producer=event.producer))


def _add_joint_pages(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    rows.evicted += [
        EvictedPageRow(before.id, page_id, seq) for page_id in event.page_ids
    ]


def _add_deleted(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    _add_change(rows, before.id, _get_entry_before(before, event), seq, deleted=seq)
    rows.deleted[before.id, event.page_id] = seq


def _add_struck(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    """Take the slot's page out of the table; its text stays."""
    if event.lookup is not None:
        _add_change(rows, before.id, _get_entry_before(before, event), seq, deleted=seq)


def _add_erased(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    for page in event.pages:
        entry = entries.build_entry(page.page_id, page.entry, thread=before.id)
        gone = erasing.is_page_erased(page, event, thread=before.id)
        _add_change(rows, before.id, entry, seq, deleted=seq if gone else None)


def _add_change(
    rows: PageRows, thread: UUID, entry: PageEntry, seq: int, *, deleted: int | None
) -> None:
    key = (thread, entry.page_id)
    row = _build_row(thread, entry, seq)._replace(deleted_seq=deleted)
    if earlier := rows.changed.get(key):
        row = row._replace(seq=earlier.seq)
    rows.changed[key] = row
    rows.entries[key] = entry if deleted is None else None


def _get_entry_before(before: ThreadState, event: Any) -> PageEntry:
    """Return the page's entry that the look-up of the event found."""
    if event.entry is not None:
        return entries.build_entry(event.page_id, event.entry, thread=before.id)
    held = before.paging.tlb.find(event.page_id)
    assert held is not None
    return held


#: Events whose payloads hold the texts of a page that is not a slot's page.
TEXTS = tuple(
    event.event_type
    for event in (
        page_events.PageCreated,
        page_events.PageUpdated,
        page_events.PageCompressed,
    )
)
#: Events that are purged with a page, including messages that carry its text.
PURGED = (*TEXTS, SlotAppended.event_type)
_MAKERS: dict[type[EventBody], Callable[[PageRows, ThreadState, Any, int], None]] = {
    SlotAppended: _add_slot_page,
    page_events.PageCreated: _add_created,
    page_events.PageUpdated: _add_updated,
    page_events.PageCompressed: _add_compressed,
    page_events.PagesEvicted: _add_joint_pages,
    page_events.PagesCited: _add_joint_pages,
    page_events.TurnRated: _add_joint_pages,
    page_events.PageDeleted: _add_deleted,
    page_events.SlotStruck: _add_struck,
    RecordsErased: _add_erased,
}


def write(rows: PageRows, changes: TotalsChanges) -> None:
    """Insert the fresh rows, and write the changed ones in place of stored ones."""
    statements.PAGES.write(rows.fresh)
    statements.LEVELS.write(rows.levels)
    statements.EVICTED_PAGES.write(rows.evicted)
    for thread, number in Counter(row.thread_id for row in rows.fresh).items():
        changes.count_rows(thread, totals.PAGES, number)
    for level in rows.levels:
        changes.count_levels(level.thread_id, level.level, 1)
    if rows.changed:
        _count_changed(rows, changes)
        statements.PAGE_CHANGES.write([*rows.changed.values()])


def _count_changed(rows: PageRows, changes: TotalsChanges) -> None:
    """Count the change before it is written: a fork may have no row of the page yet."""
    ids: dict[UUID, list[str]] = {}
    for thread, page_id in rows.changed:
        ids.setdefault(thread, []).append(page_id)
    for thread, page_ids in ids.items():
        there = Page.objects.filter(thread_id=thread, page_id__in=page_ids)
        changes.deduct(thread, there)
    for (thread, _), row in rows.changed.items():
        changes.count_page(thread, row.deleted_seq, 1)


def _build_row(thread: UUID, entry: PageEntry, seq: int) -> PageRow:
    full, hint = entry.full, entry.hint
    return PageRow(
        thread_id=thread,
        page_id=entry.page_id,
        seq=seq,
        deleted_seq=None,
        full_seq=full.location.seq,
        full_thread=full.location.find_home(thread),
        tokens=full.tokens,
        cost=full.cost,
        hint_seq=hint.seq if hint else None,
        hint_thread=hint.find_home(thread) if hint else None,
        **copy_entry_fields(entry),
    )


def _build_level(
    thread: UUID,
    page: PageEntry | PageCompressed,
    level: LevelEntry,
    *,
    producer: str = "",
    home: str = "L2",
) -> LevelRow:
    place = level.location
    return LevelRow(
        thread_id=thread,
        page_id=page.page_id,
        version=page.version,
        level=place.level,
        seq=place.seq,
        source=place.find_home(thread),
        tokens=level.tokens,
        cost=level.cost,
        producer=producer,
        home=home,
    )


def build_entry(
    row: Page | PageRow, levels: Iterable[PageLevel | LevelRow]
) -> PageEntry:
    """Build the entry of a page from its row and the levels of its version."""
    thread = row.thread_id
    place = Location(row.full_thread or thread, row.full_seq, 0)
    full, hint = LevelEntry(place, row.tokens, row.cost), None
    if row.hint_seq is not None:
        hint = Location(row.hint_thread or thread, row.hint_seq, HINT)
    entry = PageEntry(
        page_id=row.page_id,
        levels=(full, None, None, None),
        hint=hint,
        **copy_entry_fields(row),
    )
    return add_levels(entry, levels)


def add_levels(entry: PageEntry, rows: Iterable[PageLevel | LevelRow]) -> PageEntry:
    """Return the entry with the lower levels that these rows hold for its version."""
    levels = list(entry.levels)
    for row in rows:
        if row.version == entry.version and row.level:
            place = Location(row.source or row.thread_id, row.seq, row.level)
            levels[row.level] = LevelEntry(place, row.tokens, row.cost)
    return entry._replace(levels=tuple(levels))  # type: ignore[arg-type]  # four of them
