"""The page table's rows: made from events, read back as entries.

What a row says follows from the state and the event alone, so `verify` and `rebuild`
make the same rows as the writer did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from memoryhub.journal.rows import statements, totals
from memoryhub.journal.rows.rows import EvictedPageRow, LevelRow, PageRow
from memoryhub.journal.rows.totals import Changes
from memoryhub.kernel.forget import erasing
from memoryhub.kernel.paging import entries
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state import page_events
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PageCompressed
from memoryhub.kernel.state.pages import HINT, Entry, LevelEntry, Location, entry_fields
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads.slots import slot_entry
from memoryhub.models.pages import Page, PageLevel

Key = tuple[UUID, str]


@dataclass(slots=True)
class PageRows:
    """Rows to insert, and rows to put in the place of those that may be there."""

    fresh: list[PageRow] = field(default_factory=list)
    changed: dict[Key, PageRow] = field(default_factory=dict)
    levels: list[LevelRow] = field(default_factory=list)
    levels_of: dict[Key, list[LevelRow]] = field(default_factory=dict)
    evicted: list[EvictedPageRow] = field(default_factory=list)
    #: Deleted pages, and the seqs of the events that took their texts.
    deleted: dict[Key, int] = field(default_factory=dict)
    #: What the table says once these are written; None for a deleted page.
    entries: dict[Key, Entry | None] = field(default_factory=dict)

    def add_level(self, row: LevelRow) -> None:
        self.levels.append(row)
        self.levels_of.setdefault((row.thread_id, row.page_id), []).append(row)


def project(rows: PageRows, before: ThreadState, recorded: Recorded) -> None:
    """Add what an event leads to, given the state before it."""
    if make := _MAKERS.get(type(recorded.event)):
        make(rows, before, recorded.event, recorded.seq)


def _slot(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    if event.page is not None:
        _made(rows, before, slot_entry(before, event, event.page), seq)


def _created(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    turn = before.turn_count
    entry = entries.created_entry(
        event, thread=before.id, seq=seq, clock=before.clock + 1, turn=turn
    )
    _made(rows, before, entry, seq)


def _made(rows: PageRows, before: ThreadState, entry: Entry, seq: int) -> None:
    rows.fresh.append(_row(before.id, entry, seq))
    rows.entries[before.id, entry.page_id] = entry


def _updated(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    entry = _entry_before(before, event)
    after = entries.updated_entry(entry, event, thread=before.id, seq=seq)
    if after.version != entry.version:
        rows.add_level(_level(before.id, entry, entry.full, home=entry.home))
    _change(rows, before.id, after, seq, deleted=None)


def _compressed(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    for made in event.levels:
        place = Location(before.id, seq, made.level)
        level = LevelEntry(place, made.tokens, made.cost)
        rows.add_level(_level(before.id, event, level, producer=event.producer))


def _add_evicted_pages(
    rows: PageRows, before: ThreadState, event: Any, seq: int
) -> None:
    rows.evicted += [
        EvictedPageRow(before.id, page_id, seq) for page_id in event.page_ids
    ]


def _deleted(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    _change(rows, before.id, _entry_before(before, event), seq, deleted=seq)
    rows.deleted[before.id, event.page_id] = seq


def _erased(rows: PageRows, before: ThreadState, event: Any, seq: int) -> None:
    for page in event.pages:
        entry = entries.entry_of(page.page_id, page.entry, thread=before.id)
        gone = erasing.is_page_erased(page, event, thread=before.id)
        _change(rows, before.id, entry, seq, deleted=seq if gone else None)


def _change(
    rows: PageRows, thread: UUID, entry: Entry, seq: int, *, deleted: int | None
) -> None:
    key = (thread, entry.page_id)
    row = _row(thread, entry, seq)._replace(deleted_seq=deleted)
    if earlier := rows.changed.get(key):
        row = row._replace(seq=earlier.seq)
    rows.changed[key] = row
    rows.entries[key] = entry if deleted is None else None


def _entry_before(before: ThreadState, event: Any) -> Entry:
    """The page's entry: what the look-up of the event found."""
    if event.entry is not None:
        return entries.entry_of(event.page_id, event.entry, thread=before.id)
    held = before.paging.tlb.find(event.page_id)
    assert held is not None
    return held


#: Events whose payloads hold the texts of a page that is no slot's.
TEXTS = tuple(
    event.event_type
    for event in (
        page_events.PageCreated,
        page_events.PageUpdated,
        page_events.PageCompressed,
    )
)
#: Those that go with a page: messages that carry its text, too.
PURGED = (*TEXTS, SlotAppended.event_type)
_MAKERS: dict[type[Event], Callable[[PageRows, ThreadState, Any, int], None]] = {
    SlotAppended: _slot,
    page_events.PageCreated: _created,
    page_events.PageUpdated: _updated,
    page_events.PageCompressed: _compressed,
    page_events.PagesEvicted: _add_evicted_pages,
    page_events.PageDeleted: _deleted,
    RecordsErased: _erased,
}


def write(rows: PageRows, changes: Changes) -> None:
    """Insert them, and put the changed ones in their places."""
    statements.PAGES.rows(rows.fresh)
    statements.LEVELS.rows(rows.levels)
    statements.EVICTED_PAGES.rows(rows.evicted)
    for thread, number in Counter(row.thread_id for row in rows.fresh).items():
        changes.rows(thread, totals.PAGES, number)
    for level in rows.levels:
        changes.levels(level.thread_id, level.level, 1)
    if rows.changed:
        _count_changed(rows, changes)
        statements.PAGE_CHANGES.rows([*rows.changed.values()])


def _count_changed(rows: PageRows, changes: Changes) -> None:
    """Before they are written: a fork may not have had a row of the page yet."""
    ids: dict[UUID, list[str]] = {}
    for thread, page_id in rows.changed:
        ids.setdefault(thread, []).append(page_id)
    for thread, page_ids in ids.items():
        there = Page.objects.filter(thread_id=thread, page_id__in=page_ids)
        changes.leave(thread, there)
    for (thread, _), row in rows.changed.items():
        changes.page(thread, row.deleted_seq, 1)


def _row(thread: UUID, entry: Entry, seq: int) -> PageRow:
    full, hint = entry.full, entry.hint
    return PageRow(
        thread_id=thread,
        page_id=entry.page_id,
        seq=seq,
        deleted_seq=None,
        full_seq=full.location.seq,
        full_thread=full.location.elsewhere(thread),
        tokens=full.tokens,
        cost=full.cost,
        hint_seq=hint.seq if hint else None,
        hint_thread=hint.elsewhere(thread) if hint else None,
        **entry_fields(entry),
    )


def _level(
    thread: UUID,
    page: Entry | PageCompressed,
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
        source=place.elsewhere(thread),
        tokens=level.tokens,
        cost=level.cost,
        producer=producer,
        home=home,
    )


def entry_of(row: Page | PageRow, levels: Iterable[PageLevel | LevelRow]) -> Entry:
    """Build the entry that a row and the levels of its version stand for."""
    thread = row.thread_id
    place = Location(row.full_thread or thread, row.full_seq, 0)
    full, hint = LevelEntry(place, row.tokens, row.cost), None
    if row.hint_seq is not None:
        hint = Location(row.hint_thread or thread, row.hint_seq, HINT)
    entry = Entry(
        page_id=row.page_id,
        levels=(full, None, None, None),
        hint=hint,
        **entry_fields(row),
    )
    return with_levels(entry, levels)


def with_levels(entry: Entry, rows: Iterable[PageLevel | LevelRow]) -> Entry:
    """Return the entry with the lower levels that these rows have of its version."""
    levels = list(entry.levels)
    for row in rows:
        if row.version == entry.version and row.level:
            place = Location(row.source or row.thread_id, row.seq, row.level)
            levels[row.level] = LevelEntry(place, row.tokens, row.cost)
    return entry._replace(levels=tuple(levels))  # type: ignore[arg-type]  # four of them
