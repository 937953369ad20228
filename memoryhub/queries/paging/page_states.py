"""Pages as a bundle's states have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memoryhub.journal.rows.page_rows import entry_of
from memoryhub.journal.rows.rows import LevelRow, PageRow
from memoryhub.kernel.paging import pins
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay.state_files import CHUNK, StateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRecord:
    """Where a text of a page lies: in the content of that event."""

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


def _records(thread: Thread, state: ThreadState, now: datetime) -> Iterator[PageRecord]:
    rules = pins.pinned(state)
    after = 0
    if thread.parent_id is None:
        for entries in _entries_now(thread):
            yield from (_page(state, entry, rules) for entry in entries)
            after = entries[-1].created_seq
    # What it has moved on from meanwhile, or inherits.
    for entry in pages.iter_entries(state, after=after):
        yield _page(state, entry, rules)


def _entries_now(thread: Thread) -> Iterator[list[Entry]]:
    """Entries of a thread that is no fork, from its rows, while it stands still.

    Three queries for 500, and a fraction of what folding each page would cost.
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
        # Asked afterwards: a row that was read is then of the cut or before it.
        if not head.exists():
            return
        yield [entry_of(row, levels.get(row.page_id, ())) for row in chunk]
        after = chunk[-1].seq


def _page(state: ThreadState, entry: Entry, rules: Mapping[str, str]) -> PageRecord:
    return PageRecord(
        thread=state.id,
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        version=entry.version,
        importance=entry.importance,
        role=entry.role,
        slot=entry.slot,
        tier=state.paging.tier(entry.page_id) or entry.home,
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
    lines=_records,
    needs=frozenset({"page.created", "slot.appended"}),
)
