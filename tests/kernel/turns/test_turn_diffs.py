"""Turn diffs: every change between two moments has the event that made it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.page_commands import (
    DeletePage,
    EvictPage,
    FaultPage,
    MapPage,
)
from memoryhub.kernel.state.page_events import split_event
from memoryhub.kernel.state.paging import Frame
from memoryhub.kernel.turns import turn_diffs
from memoryhub.kernel.turns.turn_diffs import FrameChange, LocatedEvent
from tests.kernel.paged import thirds
from tests.kernel.state.test_paging import Threads
from tests.oracles.paging import SMALL, Bench, build_page, build_slot, make, rewrite

Frames = Mapping[str, Frame]
#: Events that can lead to a change of each kind.
MAKERS = {
    "entered": {"slot.appended", "page.created", "page.mapped", "page.faulted"},
    "left": {"page.evicted", "pages.evicted", "page.deleted", "slot.struck"},
    "lowered": {"page.lowered", "page.mapped", "page.faulted"},
    "upgraded": {"page.mapped", "page.faulted"},
    "updated": {"page.updated"},
    "unchanged": {"page.mapped", "page.faulted"},
}


class Diffs(Threads):
    """Threads of the paging model, and all of their events."""

    def __init__(self) -> None:
        super().__init__()
        self.story: list[LocatedEvent] = []
        self.marks: list[tuple[int, Frames]] = []
        self.read_up_to: tuple[Any, int] = (None, 0)

    @invariant()
    def remember(self) -> None:
        bench, done = self.read_up_to
        if bench is not self.bench:
            done = 0
        for recorded in self.bench.log[done:]:
            event = LocatedEvent(self.bench.state.id, recorded.seq, recorded.event)
            self.story.append(event)
        self.read_up_to = (self.bench, len(self.bench.log))
        self.marks.append((len(self.story), self.bench.paging.frames))

    def teardown(self) -> None:
        step = max(1, len(self.marks) // 8)
        for one, other in combinations(self.marks[::step], 2):
            explained(one[1], other[1], self.story[one[0] : other[0]])


def explained(before: Frames, after: Frames, between: list[LocatedEvent]) -> None:
    found = turn_diffs.list_changes(before, after, between)
    assert {change.page_id for change in found} == {*before, *after}
    assert len(found) == len({*before, *after})
    assert sum(turn_diffs.count_changes(found).values()) == len(found)
    used = [sum(f.tokens for f in frames.values()) for frames in (before, after)]
    assert sum(change.delta for change in found) == used[1] - used[0]
    happened = {(each.thread, each.seq): each.event for each in between}
    for change in found:
        agrees(change, before.get(change.page_id), after.get(change.page_id))
        stayed = change.kind == "unchanged" and not change.moved
        assert (change.reason is None) == stayed
        for reason in (change.reason, change.removal):
            if reason is not None:
                parts: Any = split_event(happened[reason.thread, reason.seq])
                named = {
                    getattr(each, "page_id", None) or f"slot-{each.index}"
                    for each in parts
                }
                assert change.page_id in named
        if change.reason is not None:
            assert change.reason.type in MAKERS[change.kind]
        if change.removal is not None:
            assert change.removal.type in MAKERS["left"]


def agrees(change: FrameChange, before: Frame | None, after: Frame | None) -> None:
    """Assert that the kind of change follows from the two frames."""
    expected = "unchanged"
    if before is None or after is None:
        expected = "entered" if before is None else "left"
    elif before.entry.full != after.entry.full:
        expected = "updated"
    elif before.level != after.level:
        expected = "lowered" if before.level < after.level else "upgraded"
    assert change.kind == expected
    again = before and after and before.mapped_seq != after.mapped_seq
    assert change.moved == bool(again)


def test_turn_diff_has_a_reason_for_every_change() -> None:
    """The run is as long as the quick suite can afford."""
    run_state_machine_as_test(
        Diffs, settings=settings(max_examples=20, stateful_step_count=30)
    )


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_turn_diff_has_a_reason_for_every_change_at_length() -> None:
    run_state_machine_as_test(
        Diffs, settings=settings(max_examples=300, stateful_step_count=50)
    )


class Two:
    """A thread before and after some commands."""

    def __init__(self) -> None:
        self.bench = Bench(**SMALL, auto_pin_turns=0)
        make(
            self.bench,
            build_page("one", 120),
            build_page("two", 120),
            build_page("out", 9, map=False),
        )
        self.seq, self.frames = self.bench.state.seq, self.bench.paging.frames

    def change(self, page_id: str) -> tuple[str, str, bool]:
        between = [
            LocatedEvent(self.bench.state.id, each.seq, each.event)
            for each in self.bench.log
            if each.seq > self.seq
        ]
        found = turn_diffs.list_changes(self.frames, self.bench.paging.frames, between)
        change = {each.page_id: each for each in found}[page_id]
        return change.kind, change.reason.type if change.reason else "", change.moved


def test_diff_change_names_its_kind_and_event() -> None:
    two = Two()
    two.bench.do(AppendSlots(slots=(build_slot(20),)))
    two.bench.do(FaultPage(page_id="out", level=0))
    two.bench.do(rewrite("one", 80))
    two.bench.do(MapPage(page_id="two", level=1, made=thirds("two", 1, 120)))
    assert two.change("slot-0") == ("entered", "slot.appended", False)
    assert two.change("out") == ("entered", "page.faulted", False)
    assert two.change("one") == ("updated", "page.updated", False)
    two.bench.do(DeletePage(page_id="one"))
    assert two.change("one") == ("left", "page.deleted", False)


def test_page_that_came_back_elsewhere_has_moved() -> None:
    two = Two()
    assert two.change("one") == ("unchanged", "", False)
    two.bench.do(EvictPage(page_id="one"))
    assert two.change("one") == ("left", "page.evicted", False)
    two.bench.do(MapPage(page_id="one"))
    assert two.change("one") == ("unchanged", "page.mapped", True)


def test_page_that_came_back_lower_was_lowered_by_coming_back() -> None:
    two = Two()
    two.bench.do(EvictPage(page_id="one"))
    two.bench.do(FaultPage(page_id="one", level=2, made=thirds("one", 1, 120)))
    assert two.change("one") == ("lowered", "page.faulted", True)
    two.bench.do(FaultPage(page_id="one", level=0))
    assert two.change("one") == ("unchanged", "page.faulted", True)
