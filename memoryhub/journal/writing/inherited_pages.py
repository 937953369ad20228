"""Pages in the state in which a lineage's journals left them. Never writes.

Folded from their events, since an ancestor's rows have changed since the fork.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from memoryhub.journal.log import log
from memoryhub.kernel.paging import entries
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageCreated,
    PageDeleted,
    PageUpdated,
    SlotStruck,
)
from memoryhub.kernel.state.pages import (
    LevelEntry,
    Location,
    PageEntry,
    build_slot_page_id,
)
from memoryhub.kernel.state.state import LineageSegment
from memoryhub.models.events import Event
from memoryhub.models.pages import Page
from memoryhub.models.slots import Slot

#: Events that determine a page.
SHAPING = (PageCreated, PageUpdated, PageCompressed, PageDeleted, SlotStruck)
_SHAPING_TYPES = tuple(event.event_type for event in SHAPING)
#: Places of erased texts, whatever erased them.
Gone = set[tuple[UUID, int]]


def find_inherited(lineage: Sequence[LineageSegment], page_id: str) -> PageEntry | None:
    """Return a page as the ancestors left it at the forks; None without one."""
    return find_all_inherited(lineage, [page_id]).get(page_id)


def has_deleted(lineage: Sequence[LineageSegment], page_id: str) -> bool:
    """Return whether the ancestors had the page and deleted it."""
    found = find_all_inherited(lineage, [page_id])
    return page_id in found and found[page_id] is None


def find_all_inherited(
    lineage: Sequence[LineageSegment], page_ids: Collection[str]
) -> dict[str, PageEntry | None]:
    """Return pages as the ancestors left them; None for a deleted page.

    Leaves out pages that never existed. A query a thread, two more for slots' pages,
    and one for all. Leaves out erased texts of a page whose FULL still exists.
    """
    found: dict[str, PageEntry | None] = {}
    if not lineage or not page_ids:
        return found
    gone: Gone = set()
    #: A thread's clock continues the clocks of its ancestors.
    began = 0
    for part in lineage:
        found |= _build_slot_entries(part, page_ids, gone, began=began)
        for row in _iter_shaping_rows(part, page_ids):
            if row.erased_by is not None:
                gone.add((part.thread, row.seq))
            page_id, event = str(row.page), log.to_recorded(row)
            found[page_id] = _fold_entry(
                found.get(page_id), event, thread=part.thread, began=began
            )
        began += part.up_to_seq
    for page_id in _iter_ended(lineage, [*found]):
        found[page_id] = None
    return {
        page_id: None if entry is None else _drop_erased(entry, gone)
        for page_id, entry in found.items()
    }


def _fold_entry(
    entry: PageEntry | None, recorded: RecordedEvent, *, thread: UUID, began: int
) -> PageEntry | None:
    event, seq = recorded.event, recorded.seq
    if isinstance(event, PageCreated):
        return entries.build_created_entry(
            event, thread=thread, seq=seq, clock=began + seq, turn=event.turn
        )
    if entry is None or isinstance(event, PageDeleted):
        return None
    if isinstance(event, PageUpdated):
        return entries.build_updated_entry(entry, event, thread=thread, seq=seq)
    assert isinstance(event, PageCompressed)
    return entries.build_compressed_entry(entry, event, thread=thread, seq=seq)


def _iter_shaping_rows(
    part: LineageSegment, page_ids: Collection[str]
) -> Iterator[Event]:
    rows = Event.objects.filter(
        thread_id=part.thread,
        page__in=page_ids,
        type__in=_SHAPING_TYPES,
        seq__lte=part.up_to_seq,
    )
    yield from rows.defer("payload").order_by("seq")


def _build_slot_entries(
    part: LineageSegment, page_ids: Collection[str], gone: Gone, *, began: int
) -> dict[str, PageEntry | None]:
    """Return the first entries of pages whose slots belong to this ancestor."""
    indexes = [
        index for each in page_ids if (index := _parse_slot_index(each)) is not None
    ]
    indexes = [each for each in indexes if part.first <= each < part.end]
    if not indexes:
        return {}
    slots = {
        row.seq: row
        for row in Slot.objects.filter(thread_id=part.thread, index__in=indexes)
    }
    found: dict[str, PageEntry | None] = {}
    for row in Event.objects.defer("payload").filter(
        thread_id=part.thread, seq__in=[*slots]
    ):
        if row.erased_by is not None:
            gone.add((part.thread, row.seq))
        if entry := _build_slot_entry(row, slots[row.seq], began=began):
            found[entry.page_id] = entry
    return found


def _parse_slot_index(page_id: str) -> int | None:
    kind, _, digits = page_id.partition("-")
    if kind != "slot" or not digits.isdecimal():
        return None
    index = int(digits)
    return index if page_id == build_slot_page_id(index) else None


def _build_slot_entry(row: Event, slot: Slot, *, began: int) -> PageEntry | None:
    event = log.to_recorded(row).event
    assert isinstance(event, SlotAppended)
    if event.page is None:
        return None
    place = Location(row.thread_id, row.seq, 0)
    return PageEntry(
        page_id=build_slot_page_id(event.index),
        version=1,
        type=event.page.type,
        modality=event.page.modality,
        importance=event.page.importance,
        created_seq=began + row.seq,
        created_turn=slot.turn,
        levels=(LevelEntry(place, event.tokens, event.page.cost), None, None, None),
        role=event.role,
        slot=event.index,
    )


def _iter_ended(
    lineage: Sequence[LineageSegment], page_ids: Sequence[str]
) -> Iterator[str]:
    """Yield pages that one of the threads deleted before it was forked."""
    up_to = {part.thread: part.up_to_seq for part in lineage}
    rows = Page.objects.filter(
        thread_id__in=[*up_to], page_id__in=page_ids, deleted_seq__isnull=False
    )
    for thread, page_id, seq in rows.values_list("thread_id", "page_id", "deleted_seq"):
        if seq is not None and seq <= up_to[thread]:
            yield page_id


def _drop_erased(entry: PageEntry, gone: Gone) -> PageEntry:
    """Return the entry without erased texts, unless FULL itself is erased too."""
    if not gone or entry.full.location[:2] in gone:
        return entry
    if entry.hint is not None and entry.hint[:2] in gone:
        entry = entry._replace(hint=None)
    kept = (
        None if each is None or each.location[:2] in gone else each
        for each in entry.levels
    )
    full, reduced, abstract, reference = kept
    return entry._replace(levels=(full, reduced, abstract, reference))
