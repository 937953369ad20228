"""Erasing: deciding and folding the erasure of a thread or of records. Pure.

An erased record keeps its place and loses its content. Counts, indexes and other
records stay unchanged, and the state keeps no reference to an erased record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar
from uuid import UUID

from rpds import HashTrieMap

from memoryhub.kernel.commands import EraseRecords, EraseThread
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.erased_memory import remove_values
from memoryhub.kernel.paging.entries import build_entry, build_entry_body
from memoryhub.kernel.paging.eviction import eviction
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state import calls, turn_marks
from memoryhub.kernel.state.erase_events import (
    ErasedPage,
    Range,
    Reason,
    RecordsErased,
    ThreadErased,
)
from memoryhub.kernel.state.erased import (
    ErasedPlaces,
    clip_ranges,
    count_records,
    resolve_ranges,
    strip_entry,
)
from memoryhub.kernel.state.knowledge import Knowledge
from memoryhub.kernel.state.observing import Observing
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging import Frame, Hot, Paging, list_items, list_values
from memoryhub.kernel.state.state import Counts, ScopeLabels, ThreadState
from memoryhub.kernel.state.tlb import Tlb
from memoryhub.kernel.state.working_memory import Resident, WorkingMemory

Page = TypeVar("Page", Frame, Hot)
Value = TypeVar("Value")
_NONE: Counts = HashTrieMap()


def decide_erase_thread(
    decision: Decision, command: EraseThread, pages: PageTable
) -> None:
    """Erase the whole thread. Emits thread.erased, or nothing if erased already."""
    state = decision.state
    if state.status != "erased":
        decision.emit(
            ThreadErased(
                erasure=command.erasure, reason=command.reason, records=state.seq
            )
        )


def decide_erase_records(
    decision: Decision, command: EraseRecords, pages: PageTable
) -> None:
    """Erase records. Emits records.erased, or nothing when no record is left."""
    if decision.state.status != "erased":
        _erase_ranges(decision, command.erasure, command.reason, command.ranges, pages)


def erase_inherited(
    decision: Decision, erasures: Sequence[RecordsErased], pages: PageTable
) -> None:
    """Erase, in a fork, the records that its parent erased after the fork's seq.

    Emits records.erased for each erasure that concerns the fork.
    """
    for each in erasures:
        _erase_ranges(decision, each.erasure, each.reason, each.ranges, pages)


def _erase_ranges(
    decision: Decision,
    erasure: UUID,
    reason: Reason,
    ranges: Sequence[Range],
    pages: PageTable,
) -> None:
    state = decision.state
    own = clip_ranges(state, ranges)
    if not own:
        return
    event = RecordsErased(
        erasure=erasure,
        reason=reason,
        ranges=own,
        records=count_records(own),
        pages=_build_erased_pages(
            state, pages.list_within(own), resolve_ranges(state, own)
        ),
    )
    after = apply_records_erased(state, event)
    if not (event.pages or pages.has_payload(own) or after != state):
        return
    if after.paging.settings.usable < state.paging.settings.usable:
        # The log is longer without an erased reflection.
        decision.use_settings(after.paging.settings)
        eviction.shrink(decision)
    decision.emit(event)


def _build_erased_pages(
    state: ThreadState, found: Collection[PageEntry], gone: ErasedPlaces
) -> list[ErasedPage]:
    """Build the event's pages: the remaining entry, or the former if the page goes."""
    kept = {entry.page_id: strip_entry(entry, gone) or entry for entry in found}
    return [
        ErasedPage(page_id=page_id, entry=build_entry_body(entry, thread=state.id))
        for page_id, entry in sorted(kept.items())
    ]


def apply_thread_erased(state: ThreadState, event: ThreadErased) -> ThreadState:
    """Fold thread.erased: keep counts and settings, and drop everything else."""
    return state._replace(
        status="erased",
        scope=ScopeLabels(),
        labels=(),
        types=_NONE,
        senders=_NONE,
        import_digest="",
        paging=Paging(
            settings=state.paging.set_own_tools(None).set_log_tokens(0).settings
        ),
        memory=WorkingMemory(),
        knowledge=Knowledge(),
        observing=Observing(),
        calls=(),
        marks=turn_marks.NO_MARKS,
    )


def apply_records_erased(state: ThreadState, event: RecordsErased) -> ThreadState:
    gone = resolve_ranges(state, event.ranges)
    paging = _remove_pages(state, event, gone)
    memory = remove_values(state.memory, gone, resident=_strip_resident)
    knowledge = state.knowledge.remove_erased(gone.has_clock)
    observing = state.observing
    if observing or state.paging.settings.observe:
        observing = observing.remove_erased(gone.has_clock)
    if observing != state.observing:
        paging = paging.set_log_tokens(observing.log_tokens)
    return state._replace(
        paging=paging,
        memory=memory,
        knowledge=knowledge,
        observing=observing,
        calls=calls.remove_erased(state.calls, gone.has_clock),
        marks=turn_marks.remove_erased(state.marks, gone.has_clock),
    )


def is_page_erased(page: ErasedPage, event: RecordsErased, *, thread: UUID) -> bool:
    """Return whether the page itself is erased, not only its hint or a lower level."""
    place = page.entry.levels[0]
    assert place is not None
    home = UUID(place.thread) if place.thread else thread
    return any(
        home == each and first <= place.seq <= last
        for each, first, last in event.ranges
    )


def _remove_pages(
    state: ThreadState, event: RecordsErased, gone: ErasedPlaces
) -> Paging:
    paging = state.paging
    entries = [
        build_entry(each.page_id, each.entry, thread=state.id) for each in event.pages
    ]
    names = {entry.page_id for entry in entries if strip_entry(entry, gone) is None}
    held = _strip_resident(Resident(paging.frames, paging.hot, paging.pins), gone)
    own = paging.own_tools
    if own is not None and gone.has_place(own.place.thread, own.place.seq):
        paging = paging.set_own_tools(None)
    return paging._replace(
        frames=held.frames,
        used=sum(frame.tokens for frame in list_values(held.frames)),
        hot=held.hot,
        pins=held.pins,
        tlb=_strip_tlb(paging.tlb, gone),
        history=_remove_names(paging.history, names),
        thrashing=_remove_names(paging.thrashing, names),
        calls=tuple(call for call in paging.calls if call[1][0] not in names),
        pages=paging.pages - len(names),
    )


def _strip_resident(resident: Resident, gone: ErasedPlaces) -> Resident:
    """Remove erased pages, and pages shown at an erased level, from a working set."""
    frames = resident.frames
    for name, frame in list_items(frames):
        entry = strip_entry(frame.entry, gone)
        if entry is None or entry.levels[frame.level] is None:
            frames = frames.remove(name)
        elif entry is not frame.entry:
            frames = frames.insert(name, frame._replace(entry=entry))
    hot = resident.hot
    for name, page in list_items(hot):
        entry = strip_entry(page.entry, gone)
        if entry is None:
            hot = hot.remove(name)
        elif entry is not page.entry:
            hot = hot.insert(name, page._replace(entry=entry))
    left = [name for name in resident.pins if name not in frames]
    return Resident(frames, hot, _remove_names(resident.pins, left))


def _strip_tlb(tlb: Tlb, gone: ErasedPlaces) -> Tlb:
    for held in tlb.list_oldest_first():
        entry = strip_entry(held, gone)
        if entry is None:
            tlb = tlb.drop(held.page_id)
        elif entry is not held:
            tlb = tlb.write(entry)
    return tlb


def _remove_names(
    values: HashTrieMap[str, Value], names: Collection[str]
) -> HashTrieMap[str, Value]:
    for name in names:
        if name in values:
            values = values.remove(name)
    return values


PART = KernelPart(
    upkeep={EraseThread: decide_erase_thread, EraseRecords: decide_erase_records},
    events={ThreadErased: apply_thread_erased, RecordsErased: apply_records_erased},
)
