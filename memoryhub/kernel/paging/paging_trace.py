"""References of a stretch of the journal, for curves and for runs of policies. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from memoryhub.kernel.paging import entries
from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.state import erased
from memoryhub.kernel.state import page_events as events
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.events import (
    SlotAppended,
    ThreadConfigured,
    ThreadCreated,
    ThreadForked,
)
from memoryhub.kernel.state.pages import (
    LevelEntry,
    Location,
    PageEntry,
    build_slot_page_id,
)
from memoryhub.kernel.state.paging_config import build_settings
from memoryhub.kernel.state.state import ThreadState

#: Steps of the TLB: a counted look-up, one without a row, a page made, a page dropped.
LOOK, ABSENT, MAKE, DROP, FLUSH = "look", "absent", "make", "drop", "flush"
#: Steps of the working set: mapped unasked, asked for, taken out by a command.
ENTER, USE, LEAVE, TURN = "enter", "use", "leave", "turn"
#: Causes of evictions that a policy did not choose and any policy would repeat.
_OWN_CAUSES = ("command", "observed", "answered")
TlbStep = tuple[str, str]
#: Kind, page id, and tokens in the working set.
FrameStep = tuple[str, str, int]


class PagingTrace:
    """References of a stretch of events, for the TLB and for the working set.

    The stretch begins anew where the TLB's content can't be told for every size: at
    another size, where a tier was dropped, and where a working set was restored.
    """

    def __init__(self, base: int, *, size: int) -> None:
        #: Seq of the state that the stretch begins with.
        self.base = base
        self.tlb: list[TlbStep] = []
        self.frames: list[FrameStep] = []
        #: Pages that events of the stretch made or carried.
        self.entries: dict[str, PageEntry] = {}
        self._size = size
        self._tokens: dict[str, int] = {}
        #: Pages that the thread itself has out of its working set.
        self._out: set[str] = set()

    def add(self, event: EventBody, *, state: ThreadState, seq: int) -> None:
        """Add an event; only the ids and the lineage of `state` are read."""
        if isinstance(event, ThreadCreated | ThreadForked | ThreadConfigured):
            size = build_settings(event.config).tlb_entries
            if size != self._size:
                self._size = size
                self._begin(seq)
        elif _is_untold(event):
            self._begin(seq)
        else:
            for each in events.split_event(event):
                self._look_up(each, state)
                if read := self.READERS.get(type(each)):
                    read(self, each, state, seq)

    def _begin(self, seq: int) -> None:
        self.base = seq
        self.tlb.clear()
        self.frames.clear()

    def _look_up(self, event: Any, state: ThreadState) -> None:
        page_id, entry = getattr(event, "page_id", None), getattr(event, "entry", None)
        if page_id is not None and entry is not None:
            self.entries[page_id] = entries.build_entry(page_id, entry, thread=state.id)
        if (lookup := getattr(event, "lookup", None)) is not None:
            absent = lookup == "miss" and entry is None
            self.tlb.append((ABSENT, "") if absent else (LOOK, event.page_id))

    def _make(self, entry: PageEntry, *, mapped: bool) -> None:
        self.entries[entry.page_id] = entry
        self.tlb.append((MAKE, entry.page_id))
        self._out.add(entry.page_id)
        if mapped:
            tokens = weights.weigh_page(entry, 0, recalled=False)
            self._touch(ENTER, entry.page_id, tokens)

    def _touch(self, kind: str, page_id: str, tokens: int) -> None:
        self._tokens[page_id] = tokens
        self._out.discard(page_id)
        self.frames.append((kind, page_id, tokens))

    def _append(self, event: Any, state: ThreadState, seq: int) -> None:
        page = event.page
        if page is None:
            return
        full = LevelEntry(Location(state.id, seq, 0), event.tokens, page.cost)
        entry = PageEntry(
            page_id=build_slot_page_id(event.index),
            version=1,
            type=page.type,
            modality=page.modality,
            importance=page.importance,
            created_seq=seq,
            created_turn=0,
            levels=(full, None, None, None),
            role=event.role,
            slot=event.index,
        )
        self._make(entry, mapped=page.mapped)

    def _create(self, event: Any, state: ThreadState, seq: int) -> None:
        entry = entries.build_created_entry(
            event, thread=state.id, seq=seq, clock=seq, turn=0
        )
        self._make(entry, mapped=event.mapped and event.observed is None)

    def _update(self, event: Any, state: ThreadState, seq: int) -> None:
        if (entry := self.entries.get(event.page_id)) is not None:
            self.entries[event.page_id] = entries.build_updated_entry(
                entry, event, thread=state.id, seq=seq
            )

    def _map(self, event: Any, state: ThreadState, seq: int) -> None:
        kind = USE if event.cause == "command" else ENTER
        self._touch(kind, event.page_id, event.tokens)

    def _fault(self, event: Any, state: ThreadState, seq: int) -> None:
        self._touch(USE, event.page_id, event.cost)
        if not event.promoted:
            self._out.add(event.page_id)

    def _refer(self, event: Any, state: ThreadState, seq: int) -> None:
        # Who names a page that is out did not need its text: that is no fault.
        if event.page_id not in self._out:
            tokens = self._tokens.get(event.page_id, 0)
            self.frames.append((USE, event.page_id, tokens))

    def _evict(self, event: Any, state: ThreadState, seq: int) -> None:
        if event.tier_before == "L0":
            self._out.add(event.page_id)
        if event.cause in _OWN_CAUSES:
            self.frames.append((LEAVE, event.page_id, 0))

    def _delete(self, event: Any, state: ThreadState, seq: int) -> None:
        if event.lookup is not None:
            self._drop(event.page_id)

    def _drop(self, page_id: str) -> None:
        self.tlb.append((DROP, page_id))
        self.frames.append((LEAVE, page_id, 0))

    def _erase(self, event: Any, state: ThreadState, seq: int) -> None:
        gone = erased.resolve_places(event.ranges)
        for each in event.pages:
            entry = entries.build_entry(each.page_id, each.entry, thread=state.id)
            if erased.strip_entry(entry, gone) is None:
                self._drop(each.page_id)

    def _invalidate(self, event: Any, state: ThreadState, seq: int) -> None:
        if event.page_id is not None:
            self.tlb.append((DROP, event.page_id))

    def _flush(self, event: Any, state: ThreadState, seq: int) -> None:
        self.tlb.append((FLUSH, ""))

    def _begin_turn(self, event: Any, state: ThreadState, seq: int) -> None:
        self.frames.append((TURN, "", 0))

    #: Method that reads an event, by the event's type.
    READERS: ClassVar[
        dict[type[EventBody], Callable[[PagingTrace, Any, ThreadState, int], None]]
    ] = {
        SlotAppended: _append,
        events.PageCreated: _create,
        events.PageUpdated: _update,
        events.PageMapped: _map,
        events.PageFaulted: _fault,
        events.PageReferenced: _refer,
        events.PageEvicted: _evict,
        events.PageDeleted: _delete,
        events.SlotStruck: _delete,
        RecordsErased: _erase,
        events.TlbInvalidated: _invalidate,
        events.TlbFlushed: _flush,
        events.TurnBegan: _begin_turn,
    }


def _is_untold(event: EventBody) -> bool:
    """Return whether an event dropped a tier, or restored a working set."""
    if isinstance(event, events.TlbInvalidated):
        return event.tier is not None
    return event.event_type == "checkpoint.restored" and "frames" in event.parts  # type: ignore[attr-defined]  # has them


#: Types of the events that a trace reads; all others change nothing in it.
TYPES = (
    *("thread.created", "thread.forked", "thread.configured", "checkpoint.restored"),
    *("fault.refused", "page.pinned", "page.unpinned", "pages.evicted"),
    *(kind.event_type for kind in PagingTrace.READERS),
)
