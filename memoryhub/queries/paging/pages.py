"""Pages: the page table as of an event, one page or a list of them. Never writes.

What is read here is no look-up: the TLB, its counters and residency stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.db.models import QuerySet

from memoryhub.errors import PageErasedError, PageUnknownError
from memoryhub.journal.rows.page_rows import entry_of, with_levels
from memoryhub.journal.writing.inherited_pages import SHAPING, all_inherited, inherited
from memoryhub.journal.writing.page_table import asks_above, entry_of_row
from memoryhub.kernel.paging import pins
from memoryhub.kernel.state.events import Limits
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.paging_config import Settings, settings_of
from memoryhub.kernel.state.state import Segment, ThreadState
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.threads.forks import get_segments

#: Rows of the page table read in one statement.
CHUNK = 500
_CHANGES = [kind.event_type for kind in SHAPING if kind is not PageCreated]
#: What a page was made of is said by these.
_SAYING = [kind.event_type for kind in (PageCreated, PageUpdated)]
Matches = Callable[[Entry], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFilter:
    """Which pages; what is None is not asked for. Joined by AND."""

    type: str | None = None
    modality: str | None = None
    tier: str | None = None
    #: By a command or by a rule.
    pinned: bool | None = None

    def plain(self) -> dict[str, Any]:
        """Return JSON values that identify this filter."""
        return {name: getattr(self, name) for name in self.__slots__}

    def columns(self) -> dict[str, str]:
        """Return the part of the filter that columns of page rows can answer."""
        columns = {"type": self.type, "modality": self.modality}
        return {name: word for name, word in columns.items() if word is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLine:
    """A page as it is shown: its entry, and where it stands."""

    entry: Entry
    tier: str
    #: The level it is mapped at; None for a page that is not.
    level: int | None
    #: The rule that pins it: explicit, system, exchange, recent, claim.
    pinned: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """What else a list asks of its pages; `plain` tells it from any other."""

    plain: Any
    matches: Callable[[PageLine], bool]


def line_of(state: ThreadState, entry: Entry) -> PageLine:
    """Return the entry with what the state knows of its page. No query."""
    return _line(state, entry, pins.pinned(state))


def _line(state: ThreadState, entry: Entry, rules: dict[str, str]) -> PageLine:
    frame = state.paging.frames.get(entry.page_id)
    return PageLine(
        entry=entry,
        tier=state.paging.tier(entry.page_id) or entry.home,
        level=frame.level if frame else None,
        pinned=rules.get(entry.page_id),
    )


def segments(state: ThreadState) -> tuple[Segment, ...]:
    """Return the journals behind a state, oldest first, each as far as it counts."""
    own = Segment(
        thread=state.id,
        first=state.inherited,
        end=state.slot_count,
        up_to_seq=state.seq,
    )
    return (*state.lineage, own)


def find_entry(state: ThreadState, page_id: str) -> Entry:
    """Return a page's entry as of a state.

    No query for what the state holds, else a few. Raises PageErasedError for a page
    that was deleted, PageUnknownError.
    """
    paging = state.paging
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    held = page.entry if page else paging.tlb.find(page_id)
    if held is not None:
        return held
    found = all_inherited(segments(state), [page_id])
    if page_id not in found:
        raise PageUnknownError
    entry = found[page_id]
    if entry is None:
        raise PageErasedError
    return entry


def get_provenance(state: ThreadState, page_id: str) -> tuple[str, ...]:
    """Return the sources of a page, as they were given last.

    One query a thread.
    """
    for part in reversed(segments(state)):
        rows = Event.objects.filter(
            thread_id=part.thread,
            page=page_id,
            type__in=_SAYING,
            seq__lte=part.up_to_seq,
            # Of many versions maybe one says so; bodies hold ids, never content.
            body__contains='"provenance":',
        )
        body = rows.order_by("-seq").values_list("body", flat=True).first()
        if body is not None:
            return tuple(orjson.loads(body)["provenance"])
    return ()


def current_entry(thread: Thread, page_id: str) -> Entry | None:
    """Return a page's entry as it is now, or was a moment ago.

    No state: two queries. In a fork a few more for what it inherits.
    """
    row = Page.objects.filter(thread=thread, page_id=page_id).first()
    lineage = get_segments(thread)[:-1] if asks_above(row) else ()
    entry = entry_of_row(row, inherited(lineage, page_id))
    if entry is None:
        return None
    levels = PageLevel.objects.filter(thread=thread, page_id=page_id)
    return with_levels(entry, levels)


def settings_now(thread: Thread) -> Settings:
    """Return the thread's paging settings. No query."""
    return settings_of(Limits(**orjson.loads(thread.config)))


def list_pages(
    thread: Thread,
    state: ThreadState,
    *,
    where: PageFilter | None = None,
    also: Also | None = None,
    after: str | None = None,
    limit: int = 50,
) -> Batch[PageLine]:
    """Return pages in the order they were made, as of a state, in batches.

    What is mapped, hot or pinned costs no query. Else one for each 500 rows walked,
    two more for levels and changes, and in a fork as many for each ancestor. Raises
    BadCursorError when `after` is not of this very list.
    """
    where = where or PageFilter()
    filters = [thread.id, where.plain(), also and also.plain, state.seq]
    listing = Listing(name="page_entries", project=thread.project_id, filters=filters)
    position = 0 if after is None else listing.open(after)[0]
    rules = pins.pinned(state)
    matches = _matching(state, where, rules)
    found: list[Entry] = []
    # Rows say what a page is now: only the list of now can go by them.
    columns = where.columns() if state.seq == thread.head_seq else {}
    for entry in _entries(state, where, position, columns):
        if matches(entry) and (
            also is None or also.matches(_line(state, entry, rules))
        ):
            found.append(entry)
        if len(found) > limit:
            break
    batch = found[:limit]
    return Batch(
        items=tuple(_line(state, entry, rules) for entry in batch),
        next=listing.seal([batch[-1].created_seq]) if len(found) > limit else None,
    )


def iter_entries(state: ThreadState, *, after: int = 0) -> Iterator[Entry]:
    """Yield entries of all live pages made after a clock, as of a state, oldest first.

    Three queries for 500 rows walked, and in a fork as many for each ancestor.
    """
    return _entries(state, PageFilter(), after, {})


def _matching(state: ThreadState, where: PageFilter, rules: dict[str, str]) -> Matches:
    def matches(entry: Entry) -> bool:
        tier = state.paging.tier(entry.page_id) or entry.home
        return (
            where.type in (None, entry.type)
            and where.modality in (None, entry.modality)
            and where.tier in (None, tier)
            and where.pinned in (None, entry.page_id in rules)
        )

    return matches


def _entries(
    state: ThreadState, where: PageFilter, after: int, columns: Mapping[str, str]
) -> Iterator[Entry]:
    """Entries of pages made after a clock, oldest first; more than match, maybe.

    `columns` are those that the thread's own rows must have.
    """
    paging = state.paging
    if where.tier in ("L0", "L1") or where.pinned:
        held = [frame.entry for frame in paging.frames.values()]
        held += [hot.entry for hot in paging.hot.values()]
        held.sort(key=lambda entry: entry.created_seq)
        yield from (entry for entry in held if entry.created_seq > after)
        return
    began = 0
    parts = segments(state)
    for n, part in enumerate(parts):
        later = parts[n:]
        named = columns if len(later) == 1 else {}
        yield from _made_in(later, parts, named, began=began, after=after)
        began += part.up_to_seq


def _made_in(
    later: Sequence[Segment],
    parts: Sequence[Segment],
    named: Mapping[str, str],
    *,
    began: int,
    after: int,
) -> Iterator[Entry]:
    """Entries of the pages that the first of `later` has made."""
    part = later[0]
    rows = Page.objects.filter(
        thread_id=part.thread, seq__lte=part.up_to_seq, created_seq__gt=began, **named
    )
    seq = max(0, after - began)
    while chunk := list(rows.filter(seq__gt=seq).order_by("seq")[:CHUNK]):
        seq = chunk[-1].seq
        changed = _changed(later, chunk)
        folded = all_inherited(parts, changed)
        levels = _levels(part, [row.page_id for row in chunk])
        for row in chunk:
            entry: Entry | None = None
            if row.page_id in changed:
                entry = folded.get(row.page_id)
            elif row.deleted_seq is None:
                entry = entry_of(row, levels.get(row.page_id, ()))
            if entry is not None:
                yield entry


def _changed(later: Sequence[Segment], rows: Sequence[Page]) -> set[str]:
    """Pages whose row doesn't say what they are as of the end. Two queries a thread.

    Their thread went on after the part that counts, or a fork of it changed them.
    """
    first, *forks = later
    page_ids = [row.page_id for row in rows]
    ended = {row.page_id for row in rows if (row.deleted_seq or 0) > first.up_to_seq}
    beyond = _changes(page_ids).filter(thread_id=first.thread, seq__gt=first.up_to_seq)
    found = set(beyond.values_list("page", flat=True))
    for part in forks:
        changes = _changes(page_ids).filter(
            thread_id=part.thread, seq__lte=part.up_to_seq
        )
        found |= set(changes.values_list("page", flat=True))
        # A fork has rows of those alone that it has changed, or that were erased there.
        own = Page.objects.filter(thread_id=part.thread, page_id__in=page_ids)
        found |= set(own.values_list("page_id", flat=True))
    return {page_id for page_id in found if page_id is not None} | ended


def _changes(page_ids: list[str]) -> QuerySet[Event]:
    return Event.objects.filter(page__in=page_ids, type__in=_CHANGES)


def _levels(part: Segment, page_ids: list[str]) -> dict[str, list[PageLevel]]:
    rows = PageLevel.objects.filter(
        thread_id=part.thread, page_id__in=page_ids, seq__lte=part.up_to_seq
    )
    found: dict[str, list[PageLevel]] = {}
    for row in rows:
        found.setdefault(row.page_id, []).append(row)
    return found
