"""Pages as the journals of a lineage leave them. Never writes.

Folded from their events, since an ancestor's rows have gone on meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from memoryhub.journal.log import log
from memoryhub.kernel.paging import entries
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageCreated,
    PageDeleted,
    PageUpdated,
)
from memoryhub.kernel.state.pages import Entry, LevelEntry, Location, slot_page_id
from memoryhub.kernel.state.state import Segment
from memoryhub.models.events import Event
from memoryhub.models.pages import Page
from memoryhub.models.slots import Slot

#: What a page is follows from these of its events.
SHAPING = (PageCreated, PageUpdated, PageCompressed, PageDeleted)
_SHAPING_TYPES = tuple(event.event_type for event in SHAPING)
#: Places of texts that are gone, whoever took them.
Gone = set[tuple[UUID, int]]


def inherited(lineage: Sequence[Segment], page_id: str) -> Entry | None:
    """Return a page as the ancestors left it, each as of where it was forked."""
    return all_inherited(lineage, [page_id]).get(page_id)


def was_deleted(lineage: Sequence[Segment], page_id: str) -> bool:
    """Return whether there was such a page there once, and is none any more."""
    found = all_inherited(lineage, [page_id])
    return page_id in found and found[page_id] is None


def all_inherited(
    lineage: Sequence[Segment], page_ids: Collection[str]
) -> dict[str, Entry | None]:
    """Return pages as the ancestors left them; None for one that is gone by then.

    Those that never were are left out. A query a thread, two more for slots' pages,
    and one for all. Of a page whose FULL stands, texts that are gone are left out.
    """
    found: dict[str, Entry | None] = {}
    if not lineage or not page_ids:
        return found
    gone: Gone = set()
    #: The clock of a thread goes on from those of its ancestors.
    began = 0
    for part in lineage:
        found |= _slot_entries(part, page_ids, gone, began=began)
        for row in _shaping_rows(part, page_ids):
            if row.erased_by is not None:
                gone.add((part.thread, row.seq))
            page_id, event = str(row.page), log.recorded(row)
            found[page_id] = _shaped(
                found.get(page_id), event, thread=part.thread, began=began
            )
        began += part.up_to_seq
    for page_id in _ended(lineage, [*found]):
        found[page_id] = None
    return {
        page_id: None if entry is None else _without_erased(entry, gone)
        for page_id, entry in found.items()
    }


def _shaped(
    entry: Entry | None, recorded: Recorded, *, thread: UUID, began: int
) -> Entry | None:
    event, seq = recorded.event, recorded.seq
    if isinstance(event, PageCreated):
        return entries.created_entry(
            event, thread=thread, seq=seq, clock=began + seq, turn=event.turn
        )
    if entry is None or isinstance(event, PageDeleted):
        return None
    if isinstance(event, PageUpdated):
        return entries.updated_entry(entry, event, thread=thread, seq=seq)
    assert isinstance(event, PageCompressed)
    return entries.compressed_entry(entry, event, thread=thread, seq=seq)


def _shaping_rows(part: Segment, page_ids: Collection[str]) -> Iterator[Event]:
    rows = Event.objects.filter(
        thread_id=part.thread,
        page__in=page_ids,
        type__in=_SHAPING_TYPES,
        seq__lte=part.up_to_seq,
    )
    yield from rows.defer("payload").order_by("seq")


def _slot_entries(
    part: Segment, page_ids: Collection[str], gone: Gone, *, began: int
) -> dict[str, Entry | None]:
    """The entries that pages began with whose slots are of this ancestor."""
    indexes = [index for each in page_ids if (index := _slot_of(each)) is not None]
    indexes = [each for each in indexes if part.first <= each < part.end]
    if not indexes:
        return {}
    slots = {
        row.seq: row
        for row in Slot.objects.filter(thread_id=part.thread, index__in=indexes)
    }
    found: dict[str, Entry | None] = {}
    for row in Event.objects.defer("payload").filter(
        thread_id=part.thread, seq__in=[*slots]
    ):
        if row.erased_by is not None:
            gone.add((part.thread, row.seq))
        if entry := _slot_entry(row, slots[row.seq], began=began):
            found[entry.page_id] = entry
    return found


def _slot_of(page_id: str) -> int | None:
    kind, _, digits = page_id.partition("-")
    if kind != "slot" or not digits.isdecimal():
        return None
    index = int(digits)
    return index if page_id == slot_page_id(index) else None


def _slot_entry(row: Event, slot: Slot, *, began: int) -> Entry | None:
    event = log.recorded(row).event
    assert isinstance(event, SlotAppended)
    if event.page is None:
        return None
    place = Location(row.thread_id, row.seq, 0)
    return Entry(
        page_id=slot_page_id(event.index),
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


def _ended(lineage: Sequence[Segment], page_ids: Sequence[str]) -> Iterator[str]:
    """Pages that one of the threads has seen the end of, as far as it counts."""
    up_to = {part.thread: part.up_to_seq for part in lineage}
    rows = Page.objects.filter(
        thread_id__in=[*up_to], page_id__in=page_ids, deleted_seq__isnull=False
    )
    for thread, page_id, seq in rows.values_list("thread_id", "page_id", "deleted_seq"):
        if seq is not None and seq <= up_to[thread]:
            yield page_id


def _without_erased(entry: Entry, gone: Gone) -> Entry:
    """The entry without texts that were erased, unless FULL itself is gone too."""
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
