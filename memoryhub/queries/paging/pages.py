"""The page table as of an event: one page or a list of pages. Never writes.

Reads here are no TLB look-ups: the TLB, its counters and residency stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.db.models import QuerySet

from memoryhub.errors import PageErasedError, PageUnknownError
from memoryhub.journal.rows.page_rows import add_levels, build_entry
from memoryhub.journal.writing.inherited_pages import (
    SHAPING,
    find_all_inherited,
    find_inherited,
)
from memoryhub.journal.writing.page_table import build_row_entry, needs_ancestors
from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging_config import PagingSettings, build_settings
from memoryhub.kernel.state.state import LineageSegment, ThreadState
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.threads.forks import get_segments

#: Number of page table rows read in one statement.
CHUNK = 500
_CHANGES = [kind.event_type for kind in SHAPING if kind is not PageCreated]
#: Event types that record a page's sources.
_SOURCE_EVENTS = [kind.event_type for kind in (PageCreated, PageUpdated)]
EntryPredicate = Callable[[PageEntry], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFilter:
    """Filter of pages; None matches any value, and fields are joined by AND."""

    type: str | None = None
    modality: str | None = None
    tier: str | None = None
    #: Pinned by a command or by a rule.
    pinned: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values that identify this filter."""
        return {name: getattr(self, name) for name in self.__slots__}

    def get_columns(self) -> dict[str, str]:
        """Return the conditions that columns of page rows can answer."""
        columns = {"type": self.type, "modality": self.modality}
        return {name: word for name, word in columns.items() if word is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLine:
    """A page in a list: its entry, tier and level."""

    entry: PageEntry
    tier: str
    #: The level at which the page is mapped; None for an unmapped page.
    level: int | None
    #: The rule that pins the page: explicit, system, exchange, recent, claim.
    pinned: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCondition:
    """A further condition on pages; `plain` identifies the condition in cursors."""

    plain: Any
    matches: Callable[[PageLine], bool]


def build_line(state: ThreadState, entry: PageEntry) -> PageLine:
    """Build a page's line from its entry and the state. No query."""
    return _build_line(state, entry, pins.list_pinned(state))


def _build_line(
    state: ThreadState, entry: PageEntry, rules: dict[str, str]
) -> PageLine:
    frame = state.paging.frames.get(entry.page_id)
    return PageLine(
        entry=entry,
        tier=state.paging.find_tier(entry.page_id) or entry.home,
        level=frame.level if frame else None,
        pinned=rules.get(entry.page_id),
    )


def list_segments(state: ThreadState) -> tuple[LineageSegment, ...]:
    """Return the journals of a state, oldest first, each with its last valid seq."""
    own = LineageSegment(
        thread=state.id,
        first=state.inherited,
        end=state.slot_count,
        up_to_seq=state.seq,
    )
    return (*state.lineage, own)


def find_entry(state: ThreadState, page_id: str) -> PageEntry:
    """Return a page's entry as of a state.

    No query for an entry that the state holds, else a few. Raises PageErasedError for a
    deleted page, PageUnknownError.
    """
    paging = state.paging
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    held = page.entry if page else paging.tlb.find(page_id)
    if held is not None:
        return held
    found = find_all_inherited(list_segments(state), [page_id])
    if page_id not in found:
        raise PageUnknownError
    entry = found[page_id]
    if entry is None:
        raise PageErasedError
    return entry


def get_provenance(state: ThreadState, page_id: str) -> tuple[str, ...]:
    """Return the latest recorded sources of a page.

    One query per thread of the lineage.
    """
    for part in reversed(list_segments(state)):
        rows = Event.objects.filter(
            thread_id=part.thread,
            page=page_id,
            type__in=_SOURCE_EVENTS,
            seq__lte=part.up_to_seq,
            # Few of many versions record sources; bodies hold ids, never content.
            body__contains='"provenance":',
        )
        body = rows.order_by("-seq").values_list("body", flat=True).first()
        if body is not None:
            return tuple(orjson.loads(body)["provenance"])
    return ()


def find_current_entry(thread: Thread, page_id: str) -> PageEntry | None:
    """Return a page's entry from the current rows, without a state.

    Two queries, and in a fork a few more for inherited pages.
    """
    row = Page.objects.filter(thread=thread, page_id=page_id).first()
    lineage = get_segments(thread)[:-1] if needs_ancestors(row) else ()
    entry = build_row_entry(row, find_inherited(lineage, page_id))
    if entry is None:
        return None
    levels = PageLevel.objects.filter(thread=thread, page_id=page_id)
    return add_levels(entry, levels)


def parse_settings(thread: Thread) -> PagingSettings:
    """Return the thread's paging settings. No query."""
    return build_settings(ThreadConfig(**orjson.loads(thread.config)))


def list_pages(
    thread: Thread,
    state: ThreadState,
    *,
    where: PageFilter | None = None,
    also: PageCondition | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[PageLine]:
    """List pages by time of creation, as of a state, in batches.

    Mapped, hot or pinned pages cost no query. Else one query per 500 rows walked and
    two more for levels and changes, and in a fork as many for each ancestor. Raises
    BadCursorError when `after` is not a cursor of this very list.
    """
    where = where or PageFilter()
    filters = [thread.id, where.to_dict(), also and also.plain, state.seq]
    listing = ListScope(name="page_entries", project=thread.project_id, filters=filters)
    position = 0 if after is None else listing.open(after)[0]
    rules = pins.list_pinned(state)
    matches = _build_predicate(state, where, rules)
    found: list[PageEntry] = []
    # Rows hold the current values: only a list as of the head can filter by columns.
    columns = where.get_columns() if state.seq == thread.head_seq else {}
    for entry in _iter_candidates(state, where, position, columns):
        if matches(entry) and (
            also is None or also.matches(_build_line(state, entry, rules))
        ):
            found.append(entry)
        if len(found) > limit:
            break
    batch = found[:limit]
    return ListBatch(
        items=tuple(_build_line(state, entry, rules) for entry in batch),
        next=listing.seal([batch[-1].created_seq]) if len(found) > limit else None,
    )


def iter_entries(state: ThreadState, *, after: int = 0) -> Iterator[PageEntry]:
    """Yield entries of live pages made after a clock, as of a state, oldest first.

    Three queries per 500 rows walked, and in a fork as many for each ancestor.
    """
    return _iter_candidates(state, PageFilter(), after, {})


def _build_predicate(
    state: ThreadState, where: PageFilter, rules: dict[str, str]
) -> EntryPredicate:
    def is_match(entry: PageEntry) -> bool:
        tier = state.paging.find_tier(entry.page_id) or entry.home
        return (
            where.type in (None, entry.type)
            and where.modality in (None, entry.modality)
            and where.tier in (None, tier)
            and where.pinned in (None, entry.page_id in rules)
        )

    return is_match


def _iter_candidates(
    state: ThreadState, where: PageFilter, after: int, columns: Mapping[str, str]
) -> Iterator[PageEntry]:
    """Yield candidate entries of pages made after a clock, oldest first.

    Candidates may not match the filter. `columns` are conditions on the thread's own
    rows.
    """
    paging = state.paging
    if where.tier in ("L0", "L1") or where.pinned:
        held = [frame.entry for frame in paging.frames.values()]
        held += [hot.entry for hot in paging.hot.values()]
        held.sort(key=lambda entry: entry.created_seq)
        yield from (entry for entry in held if entry.created_seq > after)
        return
    began = 0
    parts = list_segments(state)
    for n, part in enumerate(parts):
        later = parts[n:]
        named = columns if len(later) == 1 else {}
        yield from _iter_created(later, parts, named, began=began, after=after)
        began += part.up_to_seq


def _iter_created(
    later: Sequence[LineageSegment],
    parts: Sequence[LineageSegment],
    named: Mapping[str, str],
    *,
    began: int,
    after: int,
) -> Iterator[PageEntry]:
    """Yield entries of the pages that the first segment of `later` created."""
    part = later[0]
    rows = Page.objects.filter(
        thread_id=part.thread, seq__lte=part.up_to_seq, created_seq__gt=began, **named
    )
    seq = max(0, after - began)
    while chunk := list(rows.filter(seq__gt=seq).order_by("seq")[:CHUNK]):
        seq = chunk[-1].seq
        changed = _list_changed(later, chunk)
        folded = find_all_inherited(parts, changed)
        levels = _map_levels(part, [row.page_id for row in chunk])
        for row in chunk:
            entry: PageEntry | None = None
            if row.page_id in changed:
                entry = folded.get(row.page_id)
            elif row.deleted_seq is None:
                entry = build_entry(row, levels.get(row.page_id, ()))
            if entry is not None:
                yield entry


def _list_changed(later: Sequence[LineageSegment], rows: Sequence[Page]) -> set[str]:
    """Return pages whose row differs from the state's end. Two queries a thread.

    Their thread went on after the valid part, or a fork of the thread changed the
    pages.
    """
    first, *forks = later
    page_ids = [row.page_id for row in rows]
    ended = {row.page_id for row in rows if (row.deleted_seq or 0) > first.up_to_seq}
    beyond = _filter_changes(page_ids).filter(
        thread_id=first.thread, seq__gt=first.up_to_seq
    )
    found = set(beyond.values_list("page", flat=True))
    for part in forks:
        changes = _filter_changes(page_ids).filter(
            thread_id=part.thread, seq__lte=part.up_to_seq
        )
        found |= set(changes.values_list("page", flat=True))
        # A fork has rows only of pages that were changed or erased in the fork.
        own = Page.objects.filter(thread_id=part.thread, page_id__in=page_ids)
        found |= set(own.values_list("page_id", flat=True))
    return {page_id for page_id in found if page_id is not None} | ended


def _filter_changes(page_ids: list[str]) -> QuerySet[Event]:
    return Event.objects.filter(page__in=page_ids, type__in=_CHANGES)


def _map_levels(
    part: LineageSegment, page_ids: list[str]
) -> dict[str, list[PageLevel]]:
    rows = PageLevel.objects.filter(
        thread_id=part.thread, page_id__in=page_ids, seq__lte=part.up_to_seq
    )
    found: dict[str, list[PageLevel]] = {}
    for row in rows:
        found.setdefault(row.page_id, []).append(row)
    return found
