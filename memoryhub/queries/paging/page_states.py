"""Pages in the state files of an export bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memoryhub.journal.rows.page_rows import build_entry
from memoryhub.journal.rows.rows import LevelRow, PageRow
from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay.state_files import CHUNK, StateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRecord:
    """Place of a page's text: the event whose content holds it."""

    level: int
    thread: UUID
    seq: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord:
    """A page of a thread's memory; its texts lie in events."""

    thread: UUID
    page_id: str
    type: str
    modality: str
    version: int
    importance: float
    role: str | None
    slot: int | None
    tier: str
    pinned: str | None
    levels: Sequence[LevelRecord]


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[PageRecord]:
    rules = pins.list_pinned(state)
    after = 0
    if thread.parent_id is None:
        for entries in _iter_row_entries(thread):
            yield from (_build_record(state, entry, rules) for entry in entries)
            after = entries[-1].created_seq
    # Pages changed since then by later events, and inherited pages.
    for entry in pages.iter_entries(state, after=after):
        yield _build_record(state, entry, rules)


def _iter_row_entries(thread: Thread) -> Iterator[list[PageEntry]]:
    """Yield entries from the rows of a thread that is no fork, until the head moves.

    Three queries per 500 pages, a fraction of the cost of folding each page.
    """
    head = Thread.objects.filter(id=thread.id, head_seq=thread.head_seq)
    rows = Page.objects.filter(thread=thread, deleted_seq__isnull=True)
    pages_after, after = rows.order_by("seq").values_list(*PageRow._fields), 0
    while chunk := [PageRow(*row) for row in pages_after.filter(seq__gt=after)[:CHUNK]]:
        made = PageLevel.objects.filter(
            thread=thread, page_id__in=[row.page_id for row in chunk]
        )
        levels: dict[str, list[LevelRow]] = {}
        for level in made.values_list(*LevelRow._fields):
            levels.setdefault(level[1], []).append(LevelRow(*level))
        # Check the head after the read: then no row that was read is newer than the
        # cut.
        if not head.exists():
            return
        yield [build_entry(row, levels.get(row.page_id, ())) for row in chunk]
        after = chunk[-1].seq


def _build_record(
    state: ThreadState, entry: PageEntry, rules: Mapping[str, str]
) -> PageRecord:
    return PageRecord(
        thread=state.id,
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        version=entry.version,
        importance=entry.importance,
        role=entry.role,
        slot=entry.slot,
        tier=state.paging.find_tier(entry.page_id) or entry.home,
        pinned=rules.get(entry.page_id),
        levels=[
            LevelRecord(
                level=level,
                thread=each.location.thread,
                seq=each.location.seq,
                tokens=each.tokens,
            )
            for level, each in enumerate(entry.levels)
            if each is not None
        ],
    )


STATES = StateFile(
    path="state/pages.jsonl",
    record=PageRecord,
    lines=_iter_records,
    needs=frozenset({"page.created", "slot.appended"}),
)
