"""All commands of paging against a model of plain dictionaries, and the invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from rpds import HashTrieMap

from memoryhub.errors import Refusal
from memoryhub.kernel import state_json
from memoryhub.kernel.commands import (
    AmendThread,
    AppendSlots,
    MadeLevels,
    StrikeSlots,
)
from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    CreatePages,
    DeletePage,
    EvictPage,
    FaultPage,
    FlushTlb,
    InvalidateTlb,
    MapPage,
    PinPage,
    ReferencePages,
    UnpinPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.paging import list_items
from memoryhub.kernel.state.paging_config import build_settings
from memoryhub.kernel.state.state import MAX_FORK_DEPTH
from tests.kernel.paged import (
    append_slots,
    assert_bounded,
    compress_page,
    frames_of,
    full_is_written_once,
    hot_of,
    no_victim_was_pinned,
    outlined,
    rows_agree,
    thirds,
)
from tests.oracles.paging import Bench, build_page, build_slot, rewrite, split_events
from tests.oracles.paging_model import Model, No

#: Pairing of calls and results is tested with talks.
ROLES = st.sampled_from(["user", "user", "user", "system"])
SIZES = st.sampled_from([5, 30, 80, 200, 500, 900])
TYPES = st.sampled_from(["claim", "summary", "artifact", "procedure"])
LEVELS = st.integers(0, 3)
PICKS = st.integers(0, 999)
MESSAGES = st.lists(st.tuples(SIZES, ROLES), max_size=5)


class Threads(RuleBasedStateMachine):
    """One thread, and now and then a fork of it that goes on in its place."""

    bench: Bench
    model: Model

    @initialize(
        policy=st.sampled_from(["importance_lru", "lru", "modality_lru", "sieve"]),
        tlb_entries=st.sampled_from([0, 3, 8]),
        l1_pages=st.sampled_from([1, 3, 6]),
        pin_share=st.sampled_from([0.0, 0.3, 0.6, 0.9]),
        auto_pin_turns=st.sampled_from([0, 1, 3]),
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
        threshold=st.sampled_from(["referenced", "referenced", "speculative"]),
    )
    def create(self, flags: tuple[bool, ...], threshold: str, **chosen: Any) -> None:
        lower_first, map_slots, pin_system = flags
        config = {
            "budget_tokens": 2_400,
            "reserved_tokens": 800,
            "max_fault_tokens_per_turn": 700,
            "lower_first": lower_first,
            # Without, hardly anything else ever happens.
            "map_slots": map_slots or lower_first,
            "auto_pin_system": pin_system or lower_first,
            "fault_confidence_threshold": threshold,
            **chosen,
        }
        self.bench = Bench(**config)
        self.model = Model(asdict(build_settings(self.bench.state.config)))
        self.forks = 0
        self.made = 0
        self.watched()

    def watched(self) -> None:
        self.bench.watch = assert_bounded

    def both(self, command: Any, expect: Callable[[Model], None]) -> list[EventBody]:
        """Give a command to the thread and its events to the model; compare both."""
        before, state = self.model.copy(), self.bench.state
        refusal, expected = "", ""
        events: list[EventBody] = []
        floor = self.model.clock
        try:
            events = self.bench.do(command)
        except Refusal as error:
            refusal = error.code
            assert self.bench.state is state
        self.model.steps = []
        try:
            expect(self.model)
        except No as error:
            expected, self.model = str(error), before
        assert refusal == expected
        if not refusal:
            assert [
                outlined(event) for event in split_events(events)
            ] == self.model.steps
            assert self.bench.state.clock == self.model.clock == floor + len(events)
        no_victim_was_pinned(split_events(events), before, command)
        return events

    def pick(self, pick: int) -> str:
        """Draw the id of a page that exists, is deleted, or never was."""
        ids = [*self.model.pages, *sorted(self.model.gone), "nothing-of-the-kind"]
        return ids[pick % len(ids)]

    def build_levels(self, page_id: str, *, wanted: bool) -> MadeLevels | None:
        page = self.model.pages.get(page_id)
        if page is None or not wanted:
            return None
        return thirds(page_id, page["version"], page["tokens"][0])

    @rule(messages=MESSAGES)
    def append(self, messages: list[tuple[int, str]]) -> None:
        new = tuple(build_slot(size, role, cost=size + 3) for size, role in messages)
        self.both(AppendSlots(slots=new), lambda model: append_slots(model, new))

    @rule(messages=MESSAGES, wanted=st.booleans())
    def begin_turn(self, messages: list[tuple[int, str]], wanted: bool) -> None:
        new = tuple(build_slot(size, role, cost=size + 3) for size, role in messages)
        user = self.model.user
        levels = self.build_levels(user[0], wanted=wanted) if user else None

        def expect(model: Model) -> None:
            append_slots(model, new)
            model.begin_turn(levels)

        self.both(BeginTurn(slots=new, made=levels), expect)

    @rule(
        size=SIZES,
        kind=TYPES,
        importance=st.sampled_from([None, 0.0, 0.5, 1.0]),
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
        pick=PICKS,
    )
    def create_page(
        self,
        size: int,
        kind: str,
        importance: float | None,
        flags: tuple[bool, ...],
        pick: int,
    ) -> None:
        mapped, replace, again = flags
        self.made += 1
        picked = self.pick(pick)
        name = picked if again and not picked.startswith("slot-") else f"p{self.made}"
        new = build_page(name, size, type=kind, importance=importance, map=mapped)
        command = CreatePages(pages=(new,), replace=replace)
        self.both(command, lambda model: model.create(new, replace=replace))

    @rule(size=SIZES)
    def write_system_prompt(self, size: int) -> None:
        new = build_page("system-prompt", size, type="procedure", role="system")
        command = CreatePages(pages=(new,), replace=True)
        self.both(command, lambda model: model.create(new, replace=True))

    @rule(pick=PICKS, size=SIZES)
    def rewrite_page(self, pick: int, size: int) -> None:
        command = rewrite(self.pick(pick), size)
        self.both(command, lambda model: model.update(command))

    @rule(pick=PICKS, importance=st.sampled_from([0.0, 0.7, 1.0]))
    def rate_page(self, pick: int, importance: float) -> None:
        command = UpdatePage(
            page_id=self.pick(pick), payload=b"{}", importance=importance
        )
        self.both(command, lambda model: model.update(command))

    @rule(pick=PICKS)
    def delete(self, pick: int) -> None:
        page_id = self.pick(pick)
        self.both(DeletePage(page_id=page_id), lambda model: model.delete(page_id))

    @rule(pick=PICKS)
    def strike(self, pick: int) -> None:
        """Strike a message that exists, is struck, is inherited, or never was."""
        index = pick % (self.model.slots + 1)
        self.both(StrikeSlots(indexes=(index,)), lambda model: model.strike(index))

    @rule()
    def write_levels(self) -> None:
        """Write levels, as the worker does when the working set is nearly full."""
        for page_id in [*self.model.frames]:
            levels = self.build_levels(page_id, wanted=True)
            assert levels is not None
            command = WriteLevels(made=levels)
            self.both(command, partial(compress_page, page_id=page_id, levels=levels))

    @rule(pick=PICKS, level=LEVELS, wanted=st.booleans())
    def map(self, pick: int, level: int, wanted: bool) -> None:
        page_id = self.pick(pick)
        levels = self.build_levels(page_id, wanted=wanted)
        command = MapPage(page_id=page_id, level=level, made=levels)
        self.both(command, lambda model: model.map_page(page_id, level, levels))

    @rule(pick=PICKS)
    def evict(self, pick: int) -> None:
        page_id = self.pick(pick)
        self.both(EvictPage(page_id=page_id), lambda model: model.evict(page_id))

    @rule(pick=PICKS)
    def pin(self, pick: int) -> None:
        page_id = self.pick(pick)
        self.both(PinPage(page_id=page_id), lambda model: model.pin(page_id))

    @rule(pick=PICKS)
    def unpin(self, pick: int) -> None:
        page_id = self.pick(pick)
        self.both(UnpinPage(page_id=page_id), lambda model: model.unpin(page_id))

    @rule(picks=st.lists(PICKS, min_size=1, max_size=3))
    def reference_pages(self, picks: list[int]) -> None:
        ids = tuple(map(self.pick, picks))

        def expect(model: Model) -> None:
            for page_id in ids:
                model.reference_page(page_id)

        self.both(ReferencePages(page_ids=ids), expect)

    @rule(
        pick=PICKS,
        level=LEVELS,
        reason=st.sampled_from(
            ["speculative", "resolve_reference", "user_requested_recall"]
        ),
        wanted=st.booleans(),
    )
    def fault(self, pick: int, level: int, reason: Any, wanted: bool) -> None:
        page_id = self.pick(pick)
        levels = self.build_levels(page_id, wanted=wanted)
        command = FaultPage(page_id=page_id, level=level, reason=reason, made=levels)
        self.both(command, lambda model: model.fault(page_id, level, reason, levels))

    @rule(pick=PICKS, tier=st.sampled_from([None, "L0", "L1", "L2"]))
    def invalidate(self, pick: int, tier: Any) -> None:
        page_id = None if tier else self.pick(pick)
        command = InvalidateTlb(page_id=page_id, tier=tier)
        self.both(command, lambda model: model.invalidate(page_id, tier))

    @rule()
    def flush(self) -> None:
        self.both(FlushTlb(), lambda model: model.flush())

    @rule(
        budget=st.sampled_from([2_000, 2_400, 2_400, 4_000]),
        l1_pages=st.sampled_from([1, 3, 6]),
        tlb_entries=st.sampled_from([0, 3, 8]),
        fork=st.booleans(),
    )
    def configure(
        self, budget: int, l1_pages: int, tlb_entries: int, fork: bool
    ) -> None:
        changes = {
            "budget_tokens": budget,
            "l1_pages": l1_pages,
            "tlb_entries": tlb_entries,
        }
        if not fork or self.forks == MAX_FORK_DEPTH:
            command = AmendThread(config=changes)
            self.both(command, lambda model: model.amend(changes))
        else:
            self.fork(changes)

    def fork(self, changes: dict[str, Any]) -> None:
        before, config = self.model.copy(), self.bench.state.config.model_dump()
        self.forks += 1
        self.model.steps = []
        try:
            child = self.bench.fork(thread=100 + self.forks, **{**config, **changes})
        except Refusal as error:
            with pytest.raises(No, match=error.code):
                self.model.forked(changes)
            self.model = before
            return
        self.model.forked(changes)
        assert [
            outlined(event) for event in split_events(each.event for each in child.log)
        ] == self.model.steps
        self.bench = child
        self.watched()

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @invariant()
    def the_model_agrees(self) -> None:
        paging, model = self.bench.paging, self.model
        assert frames_of(paging) == model.frames
        assert hot_of(paging) == model.hot
        assert {*paging.pins} == model.pins
        entries = [entry.page_id for entry in paging.tlb.list_oldest_first()]
        assert entries == [*model.lru]
        assert (paging.tlb.hits, paging.tlb.misses) == (model.hits, model.misses)
        assert [*paging.spent] == [model.faults, model.charged, model.refused]
        assert paging.used == model.used
        assert paging.hand == model.hand
        assert pins.list_pinned(self.bench.state) == model.pinned()
        assert paging.pages == len(model.pages)
        assert self.bench.state.turn_count == model.turn
        assert paging.evicted_tokens == model.evicted_tokens
        late = Counter(at > model.turn - 5 for at, _ in model.refaults)
        assert paging.count_refaults(model.turn) == late[True]
        thrashing = {p for p, at in model.thrashed.items() if model.turn - at < 5}
        assert {*paging.thrashing} == thrashing

    @invariant()
    def the_invariants_hold(self) -> None:
        assert_bounded(self.bench.state)
        rows_agree(self.bench)
        full_is_written_once(self.bench)

    @invariant()
    def any_process_folds_the_same(self) -> None:
        folded = state_json.to_json(self.bench.refolded())
        assert folded == state_json.to_json(self.bench.state)


def test_paging_equals_its_model() -> None:
    """Section 16's `model`, as long as the quick suite can afford."""
    run_state_machine_as_test(
        Threads, settings=settings(max_examples=25, stateful_step_count=30)
    )


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_paging_equals_its_model_at_length() -> None:
    run_state_machine_as_test(
        Threads, settings=settings(max_examples=300, stateful_step_count=50)
    )


@given(items=st.dictionaries(st.text(max_size=3), st.integers()))
def test_page_map_lists_all_entries(items: dict[str, int]) -> None:
    """`listed` depends on how maps are pickled, which another rpds may do otherwise."""
    found = list_items(HashTrieMap(items))
    assert len(found) == len(items)
    assert dict(found) == items
