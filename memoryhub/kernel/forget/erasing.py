"""Erasing: a thread as a whole, or records of it. Pure. Verbs decide, participles fold.

What is erased keeps its place and loses its content: counts, indexes and other records
stay as they are, and nothing of the state leads there any more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar
from uuid import UUID

from rpds import HashTrieMap

from memoryhub.kernel.commands import EraseRecords, EraseThread
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.erased_memory import without_values
from memoryhub.kernel.paging import eviction
from memoryhub.kernel.paging.entries import entry_body, entry_of
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.erase_events import (
    ErasedPage,
    Range,
    Reason,
    RecordsErased,
    ThreadErased,
)
from memoryhub.kernel.state.erased import Erased, clipped, count, erased, stripped
from memoryhub.kernel.state.knowledge import Knowledge
from memoryhub.kernel.state.observing import Observing
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.paging import Frame, Hot, Paging, listed, values
from memoryhub.kernel.state.state import Counts, Scope, ThreadState
from memoryhub.kernel.state.tlb import Tlb
from memoryhub.kernel.state.working_memory import Resident, WorkingMemory

Page = TypeVar("Page", Frame, Hot)
Value = TypeVar("Value")
_NONE: Counts = HashTrieMap()


def erase_thread(decision: Decision, command: EraseThread, pages: PageTable) -> None:
    """End the thread for good. Emits thread.erased; for one that is, nothing."""
    state = decision.state
    if state.status != "erased":
        decision.emit(
            ThreadErased(
                erasure=command.erasure, reason=command.reason, records=state.seq
            )
        )


def erase_records(decision: Decision, command: EraseRecords, pages: PageTable) -> None:
    """Let go of records. Emits records.erased, or nothing when none of them is left."""
    if decision.state.status != "erased":
        _erase(decision, command.erasure, command.reason, command.ranges, pages)


def erase_inherited(
    decision: Decision, erasures: Sequence[RecordsErased], pages: PageTable
) -> None:
    """Let a fork go of what its parent was told to erase after it was left.

    Emits records.erased for each that concerns it.
    """
    for each in erasures:
        _erase(decision, each.erasure, each.reason, each.ranges, pages)


def _erase(
    decision: Decision,
    erasure: UUID,
    reason: Reason,
    ranges: Sequence[Range],
    pages: PageTable,
) -> None:
    state = decision.state
    own = clipped(state, ranges)
    if not own:
        return
    event = RecordsErased(
        erasure=erasure,
        reason=reason,
        ranges=own,
        records=count(own),
        pages=_touched(state, pages.within(own), erased(state, own)),
    )
    after = records_erased(state, event)
    if not (event.pages or pages.kept(own) or after != state):
        return
    if after.paging.settings.usable < state.paging.settings.usable:
        # A log is longer without the reflection that stood for it.
        decision.goes_by(after.paging.settings)
        eviction.shrink(decision)
    decision.emit(event)


def _touched(
    state: ThreadState, found: Collection[Entry], gone: Erased
) -> list[ErasedPage]:
    """Those pages as they stay; those that go, as they were."""
    kept = {entry.page_id: stripped(entry, gone) or entry for entry in found}
    return [
        ErasedPage(page_id=page_id, entry=entry_body(entry, thread=state.id))
        for page_id, entry in sorted(kept.items())
    ]


def thread_erased(state: ThreadState, event: ThreadErased) -> ThreadState:
    """Fold thread.erased: counts and settings stay, everything else goes."""
    return state._replace(
        status="erased",
        scope=Scope(),
        labels=(),
        types=_NONE,
        senders=_NONE,
        import_digest="",
        paging=Paging(settings=state.paging.having(None).logging(0).settings),
        memory=WorkingMemory(),
        knowledge=Knowledge(),
        observing=Observing(),
    )


def records_erased(state: ThreadState, event: RecordsErased) -> ThreadState:
    gone = erased(state, event.ranges)
    paging = _pages_gone(state, event, gone)
    memory = without_values(state.memory, gone, resident=_held_without)
    knowledge = state.knowledge.without(gone.at)
    observing = state.observing
    if observing or state.paging.settings.observe:
        observing = observing.without(gone.at)
    if observing != state.observing:
        paging = paging.logging(observing.log_tokens)
    return state._replace(
        paging=paging, memory=memory, knowledge=knowledge, observing=observing
    )


def is_page_erased(page: ErasedPage, event: RecordsErased, *, thread: UUID) -> bool:
    """Return whether the page itself is erased, and not just another text of it."""
    place = page.entry.levels[0]
    assert place is not None
    home = UUID(place.thread) if place.thread else thread
    return any(
        home == each and first <= place.seq <= last
        for each, first, last in event.ranges
    )


def _pages_gone(state: ThreadState, event: RecordsErased, gone: Erased) -> Paging:
    paging = state.paging
    entries = [
        entry_of(each.page_id, each.entry, thread=state.id) for each in event.pages
    ]
    names = {entry.page_id for entry in entries if stripped(entry, gone) is None}
    held = _held_without(Resident(paging.frames, paging.hot, paging.pins), gone)
    own = paging.own_tools
    if own is not None and gone.holds(own.place.thread, own.place.seq):
        paging = paging.having(None)
    return paging._replace(
        frames=held.frames,
        used=sum(frame.tokens for frame in values(held.frames)),
        hot=held.hot,
        pins=held.pins,
        tlb=_tlb_without(paging.tlb, gone),
        history=_without(paging.history, names),
        thrashing=_without(paging.thrashing, names),
        calls=tuple(call for call in paging.calls if call[1][0] not in names),
        pages=paging.pages - len(names),
    )


def _held_without(resident: Resident, gone: Erased) -> Resident:
    """A working set without the pages that go, and those shown at a level that goes."""
    frames = resident.frames
    for name, frame in listed(frames):
        entry = stripped(frame.entry, gone)
        if entry is None or entry.levels[frame.level] is None:
            frames = frames.remove(name)
        elif entry is not frame.entry:
            frames = frames.insert(name, frame._replace(entry=entry))
    hot = resident.hot
    for name, page in listed(hot):
        entry = stripped(page.entry, gone)
        if entry is None:
            hot = hot.remove(name)
        elif entry is not page.entry:
            hot = hot.insert(name, page._replace(entry=entry))
    left = [name for name in resident.pins if name not in frames]
    return Resident(frames, hot, _without(resident.pins, left))


def _tlb_without(tlb: Tlb, gone: Erased) -> Tlb:
    for held in tlb.oldest_first():
        entry = stripped(held, gone)
        if entry is None:
            tlb = tlb.drop(held.page_id)
        elif entry is not held:
            tlb = tlb.write(entry)
    return tlb


def _without(
    values: HashTrieMap[str, Value], names: Collection[str]
) -> HashTrieMap[str, Value]:
    for name in names:
        if name in values:
            values = values.remove(name)
    return values


PART = Part(
    upkeep={EraseThread: erase_thread, EraseRecords: erase_records},
    events={ThreadErased: thread_erased, RecordsErased: records_erased},
)
