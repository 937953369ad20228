"""A command under way: what it has emitted so far, and the state after it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from memoryhub.kernel.commands import Draft
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.page_events import (
    PageEvicted,
    PageFaulted,
    PageReferenced,
    PagesEvicted,
    PageUpdated,
    TurnBegan,
)
from memoryhub.kernel.state.pages import Entry, Location
from memoryhub.kernel.state.paging import Hot, Paging, values
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.kernel.state.state import ThreadState

Evolve = Callable[[ThreadState, Any], ThreadState]
#: Events that change keep scores of pages that are hot already.
_RESCORING = frozenset({PageFaulted, PageReferenced, PageUpdated, TurnBegan})


class PageTable(Protocol):
    """The rows that a decision may ask for, as the thread sees them.

    Those behind the TLB, and when values are due. Reading counts nothing.
    """

    def entry(self, page_id: str) -> Entry | None:
        """Return the entry of a live page; None when there is none."""

    def deleted(self, page_id: str) -> bool:
        """Return whether there was a page of that id once."""

    def entries(self, page_ids: Collection[str]) -> Mapping[str, Entry]:
        """Return the entries of those pages that are live; at most one query."""

    def count(self) -> int:
        """Return how many live pages the thread itself has made."""

    def sources(self, place: Location) -> Sequence[Location]:
        """Return the texts that the text at this place was made from."""

    def within(self, ranges: Sequence[Range]) -> Collection[Entry]:
        """Return the entries of live pages of which a text lies in these ranges."""

    def digest(self, text: str) -> str:
        """Return a keyed digest of a client's text, to recognise it by later."""

    def kept(self, ranges: Sequence[Range]) -> bool:
        """Return whether the thread itself still has a payload there."""

    def asserted(
        self, timelines: Collection[tuple[str, str]]
    ) -> Mapping[tuple[str, str], int]:
        """Return how many assertions each has, by entity and predicate as written."""

    def dues(self, seqs: Collection[int]) -> Mapping[int, datetime]:
        """Return when each value is due to leave history at the earliest, by seq."""


class Decision:
    """Collects drafts; each decision sees the state after all that stand before it."""

    def __init__(
        self, state: ThreadState, evolve: dict[type[Event], Evolve], *, at: datetime
    ) -> None:
        self.drafts: list[Draft] = []
        #: The instant of all of them.
        self.at = at
        #: Emitted last and folded, but no draft yet: what comes may go with them.
        self._evicted: list[PageEvicted] = []
        self._evolve = evolve
        self._state = state
        self._folded = 0
        self._is_settled = True
        self._hot: list[tuple[float, int, str]] | None = None

    def emit(self, event: Event, payload: bytes | None = None) -> None:
        self._join_evictions()
        if self._hot is not None and type(event) in _RESCORING:
            self._hot = None
        self.drafts.append(Draft(event=event, payload=payload))

    def emit_eviction(self, event: PageEvicted) -> None:
        """Emit it together with those just before it, where one event can hold them."""
        if self._evicted and not event.can_join(self._evicted[-1]):
            self._join_evictions()
        self._state = self._evolve[PageEvicted](self.state, event)
        self._evicted.append(event)

    def finish(self) -> list[Draft]:
        """Return all that was emitted."""
        self._join_evictions()
        return self.drafts

    def _join_evictions(self) -> None:
        """Make one draft of the evictions that have been folded one by one."""
        if not self._evicted:
            return
        evicted, self._evicted = self._evicted, []
        event = evicted[0] if len(evicted) == 1 else PagesEvicted.join(evicted)
        self.drafts.append(Draft(event=event))
        self._advance(self.drafts[-1], self._state)

    def _advance(self, draft: Draft, after: ThreadState) -> None:
        self._state = after._replace(seq=after.seq + 1)
        self._folded += 1
        if self._is_settled:
            # Handed on, since to fold an event again takes as long.
            draft.after = self._state

    @property
    def state(self) -> ThreadState:
        """Folded when it is asked for: most commands emit one event and are done."""
        while self._folded < len(self.drafts):
            draft = self.drafts[self._folded]
            fold = self._evolve[type(draft.event)]
            self._advance(draft, fold(self._state, draft.event))
        return self._state

    def goes_by(self, settings: Settings) -> None:
        """Decide by these settings, which an event of this command is yet to set.

        A hot list that is to grow keeps its old bound until then. States from here on
        are none that the thread will have.
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

    def displaced(self) -> str | None:
        """Return the page that one more hot page pushes out; None while there is room.

        The scores stand in a heap: a run that empties half the working set would
        otherwise score the whole hot list for each of its victims.
        """
        hot = self.paging.hot
        if len(hot) < max(1, self.paging.settings.l1_pages):
            return None
        if self._hot is None:
            self._hot = [self._scored(page) for page in values(hot)]
            heapify(self._hot)
        while self._hot:
            _, since, page_id = heappop(self._hot)
            page = hot.get(page_id)
            if page is not None and page.since_seq == since:
                return page_id
        return None

    def cooled(self, page_id: str) -> None:
        """Tell that a page has become hot, so that later ones may push it out."""
        if self._hot is not None and page_id in self.paging.hot:
            heappush(self._hot, self._scored(self.paging.hot[page_id]))

    def _scored(self, page: Hot) -> tuple[float, int, str]:
        score = policies.hot_score(page, self.paging, turn=self.turn)
        return score, page.since_seq, page.page_id
