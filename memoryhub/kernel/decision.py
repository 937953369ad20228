"""A command under way: the events emitted so far, and the state after them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol

from memoryhub.kernel.commands import EventDraft
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageEvicted,
    PageFaulted,
    PageLowered,
    PageMapped,
    PageReferenced,
    PagesCited,
    PagesEvicted,
    PageUpdated,
    TurnBegan,
    TurnRated,
)
from memoryhub.kernel.state.pages import Location, PageEntry, build_slot_page_id
from memoryhub.kernel.state.paging import Frame, Hot, Paging, list_values
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.state import ThreadState

Evolve = Callable[[ThreadState, Any], ThreadState]
#: Events that change keep scores of pages in the hot list.
_RESCORING = frozenset(
    {PageFaulted, PageReferenced, PagesCited, PageUpdated, TurnBegan, TurnRated}
)
#: Events of an append or an import that add no frame, and make none larger.
_NOT_GROWING = (
    PageCompressed,
    PageEvicted,
    PageLowered,
    PagesCited,
    PagesEvicted,
    TurnBegan,
)


class PageTable(Protocol):
    """Rows that a decision may read, as the thread sees them.

    Page entries behind the TLB, and due instants of values. Reading counts no look-up.
    """

    def find_entry(self, page_id: str) -> PageEntry | None:
        """Return the entry of a live page; None when no such page is live."""

    def is_deleted(self, page_id: str) -> bool:
        """Return whether a page with this id existed and was deleted."""

    def find_named(self, name: str) -> tuple[str, bool] | None:
        """Return the id of the page that was given this name, and whether it is live.

        None without one. A live page comes before those that were deleted.
        """

    def list_entries(self, page_ids: Collection[str]) -> Mapping[str, PageEntry]:
        """Return the entries of the live pages among these ids; at most one query."""

    def count_pages(self) -> int:
        """Count the live pages that the thread itself has made."""

    def list_sources(self, place: Location) -> Sequence[Location]:
        """Return the places of the texts that the text at `place` was made from."""

    def list_within(self, ranges: Sequence[Range]) -> Collection[PageEntry]:
        """Return the entries of live pages with a text in these ranges."""

    def digest(self, text: str) -> str:
        """Return a keyed digest of a client's text, to recognise the text later."""

    def list_unstruck(self, indexes: Collection[int]) -> Mapping[int, int]:
        """Return the seqs of the thread's own slots that are not struck, by index."""

    def has_payload(self, ranges: Sequence[Range]) -> bool:
        """Return whether the thread has a payload in these ranges, or rows of one."""

    def count_fullest(self, timelines: Iterable[tuple[str, str]]) -> int:
        """Count the assertions of the fullest timeline once one is added for each item.

        Items are entities and predicates as written; spellings of one timeline count
        together.
        """

    def list_dues(self, seqs: Collection[int]) -> Mapping[int, datetime]:
        """Return the earliest instant at which each value may leave history, by seq."""


class _LargeFrames(NamedTuple):
    """Pages whose frames had more than `tokens`, after so many drafts."""

    tokens: float
    drafts: int
    page_ids: list[str]


class Decision:
    """Collected drafts of a command; each step sees the state after earlier drafts."""

    def __init__(
        self, state: ThreadState, evolve: dict[type[EventBody], Evolve], *, at: datetime
    ) -> None:
        self.drafts: list[EventDraft] = []
        #: Instant of all drafts.
        self.at = at
        #: Evictions emitted last and folded, not yet a draft: later evictions may join.
        self._evicted: list[PageEvicted] = []
        self._evolve = evolve
        self._state = state
        self._folded = 0
        self._is_settled = True
        self._hot: list[tuple[float, int, str]] | None = None
        self._large: _LargeFrames | None = None

    def emit(self, event: EventBody, payload: bytes | None = None) -> None:
        self._join_evictions()
        if self._hot is not None and type(event) in _RESCORING:
            self._hot = None
        self.drafts.append(EventDraft(event=event, payload=payload))

    def emit_eviction(self, event: PageEvicted) -> None:
        """Emit an eviction, joined with the evictions just before where possible.

        See decision 71.
        """
        if self._evicted and not event.can_join(self._evicted[-1]):
            self._join_evictions()
        self._state = self._evolve[PageEvicted](self.state, event)
        self._evicted.append(event)

    def finish(self) -> list[EventDraft]:
        """Return all drafts."""
        self._join_evictions()
        return self.drafts

    def _join_evictions(self) -> None:
        """Make one draft of the evictions that were folded one by one."""
        if not self._evicted:
            return
        evicted, self._evicted = self._evicted, []
        event = evicted[0] if len(evicted) == 1 else PagesEvicted.join(evicted)
        self.drafts.append(EventDraft(event=event))
        self._advance(self.drafts[-1], self._state)

    def _advance(self, draft: EventDraft, after: ThreadState) -> None:
        self._state = after._replace(seq=after.seq + 1)
        self._folded += 1
        if self._is_settled:
            # Keep the state, since folding the event again takes as long.
            draft.after = self._state

    @property
    def state(self) -> ThreadState:
        """State after all drafts, folded on demand: most commands emit one event."""
        while self._folded < len(self.drafts):
            draft = self.drafts[self._folded]
            fold = self._evolve[type(draft.event)]
            self._advance(draft, fold(self._state, draft.event))
        return self._state

    def use_settings(self, settings: PagingSettings) -> None:
        """Use settings that a later event of this command will set.

        A hot list that is to grow keeps its old bound until that event. Drafts from
        here on keep no state, since the thread will never have it.
        """
        self._is_settled = False
        paging = self.paging
        least = min(settings.l1_pages, paging.settings.l1_pages)
        settings = replace(settings, l1_pages=least)
        self._state = self.state._replace(paging=paging._replace(settings=settings))

    @property
    def paging(self) -> Paging:
        return self.state.paging

    @property
    def turn(self) -> int:
        return self.state.turn_count

    def list_large_frames(self, tokens: float) -> list[Frame]:
        """List the frames of more than `tokens`, in arbitrary order.

        A batch asks before each message of the user, and a full set has a thousand
        frames. So a repeat looks only at frames that the drafts since have mapped.
        """
        frames, large = self.paging.frames, self._large
        since = None
        if large is not None and large.tokens == tokens:
            since = _list_mapped(self.drafts[large.drafts :])
        if large is None or since is None:
            found = [each for each in list_values(frames) if each.tokens > tokens]
        else:
            named = map(frames.get, dict.fromkeys((*large.page_ids, *since)))
            found = [each for each in named if each and each.tokens > tokens]
        page_ids = [each.page_id for each in found]
        self._large = _LargeFrames(tokens, len(self.drafts), page_ids)
        return found

    def take_displaced(self) -> str | None:
        """Take the page that one more hot page displaces; None while there is room.

        The scores stand in a heap: a run that empties half the working set would
        otherwise score the whole hot list for each of its victims.
        """
        hot = self.paging.hot
        if len(hot) < max(1, self.paging.settings.l1_pages):
            return None
        if self._hot is None:
            self._hot = [self._score_hot_page(page) for page in list_values(hot)]
            heapify(self._hot)
        while self._hot:
            _, since, page_id = heappop(self._hot)
            page = hot.get(page_id)
            if page is not None and page.since_seq == since:
                return page_id
        return None

    def note_hot_page(self, page_id: str) -> None:
        """Note that a page became hot, so that later hot pages may displace it."""
        if self._hot is not None and page_id in self.paging.hot:
            heappush(self._hot, self._score_hot_page(self.paging.hot[page_id]))

    def _score_hot_page(self, page: Hot) -> tuple[float, int, str]:
        score = policies.score_hot_page(page, self.paging, turn=self.turn)
        return score, page.since_seq, page.page_id


def _list_mapped(drafts: Sequence[EventDraft]) -> list[str] | None:
    """List the pages that these drafts may have mapped; None if that is not known."""
    page_ids = []
    for event in (draft.event for draft in drafts):
        if isinstance(event, SlotAppended):
            page_ids.append(build_slot_page_id(event.index))
        elif isinstance(event, PageMapped):
            page_ids.append(event.page_id)
        elif not isinstance(event, _NOT_GROWING):
            return None
    return page_ids
