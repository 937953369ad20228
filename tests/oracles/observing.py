"""Observations of each slot of a thread, from its events, and their invariants.

The oracle does not use the kernel's folding.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from memoryhub.kernel.state.observing import Observation, Observing
from memoryhub.kernel.state.page_events import list_evictions
from memoryhub.kernel.state.state import ThreadState

#: Ids of pages that are there, as whoever keeps them says.
Live = Collection[str]


@dataclass
class Standing:
    """Observations of a thread's slots: by slot an id, or None once erased."""

    by: list[str | None] = field(default_factory=list)
    #: Slots that lie in each group of calls and results; the last may be open.
    groups: list[range] = field(default_factory=list)
    #: Ids that a reflection covers, by its id.
    covers: dict[str, list[str]] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, range] = field(default_factory=dict)
    cursor: int = 0
    watermark: int = 0

    def copy(self) -> Standing:
        return Standing(
            [*self.by],
            [*self.groups],
            {**self.covers},
            {**self.clocks},
            {**self.ranges},
            self.cursor,
            self.watermark,
        )

    def take(self, event: Any, clock: int, state: ThreadState, live: Live) -> None:
        """Take an event in; the state and the pages are those after its command."""
        if event.event_type == "slot.appended":
            self._note_slot(event)
        elif event.event_type == "page.created" and event.observed:
            self._note_observation(event, clock, live)
        elif event.event_type == "log.reflected":
            for n in self.ranges[event.page_id]:
                self.by[n] = event.page_id
        for each in list_evictions(event):
            user = state.paging.last_user
            spared = user is not None and each.page_id == f"slot-{user.slot}"
            assert each.cause != "observed" or not spared

    def _note_slot(self, event: Any) -> None:
        self.by.append(None)
        if event.role == "assistant":
            self.groups.append(range(event.index, event.index + 1))
        elif event.role == "tool":
            self.groups[-1] = range(self.groups[-1].start, event.index + 1)

    def _note_observation(self, event: Any, clock: int, live: Live) -> None:
        body = event.observed
        span = range(body.begin, body.end)
        self.ranges[event.page_id] = span
        self.clocks[event.page_id] = clock
        if body.covers is not None:
            self.covers[event.page_id] = body.covers
            return
        # Nothing is observed twice, and no group is parted.
        assert all(self.by[n] is None for n in span)
        for group in self.groups:
            if f"slot-{body.end}" not in live and body.end < len(self.by):
                # Erased slots belong to no group.
                continue
            assert not group.start < body.end < group.stop
            is_open = group.stop == len(self.by)
            assert not (is_open and group.start < body.end), "an open group"
        for n in span:
            self.by[n] = event.page_id

    # Sources and derivations

    def made_of(self, slots: set[int]) -> set[str]:
        return {name for name, span in self.ranges.items() if slots & {*span}}

    def made_with(self, names: set[str]) -> set[str]:
        """Return these ids and the reflections that cover one of them, at any depth."""
        gone = {*names}
        for name, covers in self.covers.items():
            # In the order they were made.
            gone |= {name} if gone & {*covers} else set()
        return gone

    def lose(self, gone: set[str]) -> None:
        """Erase observations: what each replaced takes its place, or nothing."""
        for name in gone:
            self._lose(name, gone)

    def _lose(self, name: str, gone: set[str]) -> None:
        places = [n for n, by in enumerate(self.by) if by == name]
        for n in places:
            self.by[n] = None
        if not places:
            return
        for inner in self.covers.get(name, []):
            for n in self.ranges[inner]:
                self.by[n] = inner
            if inner in gone:
                self._lose(inner, gone)

    # Invariants

    def check(self, state: ThreadState, before: Observing, live: Live) -> None:
        """Compare the state with the oracle; `before` is the step before's state."""
        seen = state.observing
        assert 0 <= seen.cursor <= seen.watermark <= state.slot_count
        assert seen.cursor >= self.cursor, "a cursor moved back"
        assert seen.watermark >= self.watermark
        self.cursor, self.watermark = seen.cursor, seen.watermark
        stands = list[str | None]([None] * state.slot_count)
        for each in (*seen.log, *seen.chunks):
            assert each.end <= (seen.cursor if each in seen.log else seen.watermark)
            for n in range(each.begin, each.end):
                assert stands[n] is None
                stands[n] = each.page_id
        assert stands == self.by
        gaps = {n for a, b in seen.list_gaps() for n in range(a, b)}
        assert gaps == {n for n in range(seen.watermark) if stands[n] is None}
        assert all(each.page_id[:3] == "obs" for each in seen.log[1:])
        chunks = {each.page_id for each in before.chunks}
        logged = {each.page_id for each in seen.log}
        covered = {name for each in seen.log for name in _names_in(each)}
        waiting = {each.page_id for each in seen.chunks}
        gone = {*self.ranges} - {*live}
        assert chunks <= logged | covered | waiting | gone

    def missing(self, state: ThreadState, live: Live) -> list[str]:
        """List messages that no entry of the log covers, and that are no frame."""
        stood = {n for each in state.observing.log for n in range(each.begin, each.end)}
        raw = [f"slot-{n}" for n in range(state.slot_count) if n not in stood]
        there = state.paging.frames
        return [name for name in raw if name not in there and name in live]


def _names_in(found: Observation) -> set[str]:
    return {found.page_id}.union(*map(_names_in, found.covers))
