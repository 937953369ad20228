"""Effects of a thread's settings and forks on its working set."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import InvalidError, PinBudgetError
from memoryhub.kernel import state_json
from memoryhub.kernel.commands import AmendThread, AppendSlots
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    EvictPage,
    FaultPage,
    PinPage,
    ReferencePages,
    WriteLevels,
)
from memoryhub.kernel.state import paging_config
from memoryhub.kernel.state.events import ThreadConfigured, ThreadForked
from memoryhub.kernel.state.page_events import PageEvicted
from memoryhub.kernel.state.paging_config import FIXED, PagingSettings
from memoryhub.kernel.state.state import ThreadState
from tests.oracles.paging import (
    BARE,
    Bench,
    build_levels,
    build_page,
    build_slot,
    list_of_kind,
    make,
)


def append(bench: Bench, *sizes: int, role: str = "tool") -> list[Any]:
    return bench.do(AppendSlots(slots=tuple(build_slot(size, role) for size in sizes)))


def assert_fits(state: ThreadState) -> None:
    paging = state.paging
    assert paging.used <= paging.settings.usable
    assert len(paging.hot) <= paging.settings.l1_pages


# Settings


def test_smaller_budget_evicts_before_it_holds() -> None:
    """No seq shows a working set beyond its bounds."""
    bench = Bench(**BARE)
    append(bench, 300, 300, 300, 300)
    bench.watch = assert_fits
    events = bench.do(AmendThread(config={"budget_tokens": 2_000}))
    assert isinstance(events[-1], ThreadConfigured)
    evicted = list_of_kind(events, PageEvicted)
    assert [event.page_id for event in evicted] == ["slot-0", "slot-1"]
    assert {event.cause for event in evicted} == {"shrink"}
    assert bench.paging.used <= int(1_200 * 0.7)


@pytest.mark.parametrize(("before", "after"), [(6, 2), (2, 6)])
def test_hot_list_keeps_its_bound_meanwhile(before: int, after: int) -> None:
    bench = Bench(**BARE, l1_pages=before)
    append(bench, *[100] * 13)
    for number in range(4):
        bench.do(EvictPage(page_id=f"slot-{number}"))
    bench.watch = assert_fits
    change = {"l1_pages": after, "budget_tokens": 2_000, "reserved_tokens": 1_000}
    bench.do(AmendThread(config=change))
    assert len(bench.paging.hot) <= after


def test_budget_that_pins_do_not_fit_is_refused() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 600), build_page("b", 300))
    bench.do(PinPage(page_id="a"))
    bench.do(PinPage(page_id="b"))
    before = bench.state
    with pytest.raises(PinBudgetError) as refusal:
        bench.do(AmendThread(config={"budget_tokens": 2_000}))
    assert refusal.value.detail == {"pinned_tokens": 900, "allowed_tokens": 720}
    assert bench.state is before


def test_unchanged_settings_write_no_event() -> None:
    bench = Bench(**BARE)
    assert bench.do(AmendThread(config={"budget_tokens": 2_400})) == []
    # Absent is the default: to name it is a change of the config all the same.
    assert len(bench.do(AmendThread(config={"policy": "importance_lru"}))) == 1
    assert bench.paging.settings.policy == "importance_lru"


@pytest.mark.parametrize(
    ("loc", "config"),
    [
        ("budget_tokens", {"budget_tokens": 1_999}),
        ("budget_tokens", {"budget_tokens": 2_000_001}),
        ("reserved_tokens", {"reserved_tokens": 799}),
        ("reserved_tokens", {"reserved_tokens": 1_201}),
        ("evict_to", {"evict_at": 0.7, "evict_to": 0.7}),
        ("evict_at", {"evict_at": 1.01}),
        ("pin_share", {"pin_share": 0.91}),
        ("pin_share", {"pin_share": float("nan")}),
        ("claim_share", {"claim_share": -0.1}),
        ("l1_pages", {"l1_pages": 0}),
        ("tlb_entries", {"tlb_entries": 4_097}),
        ("cooldown_turns", {"cooldown_turns": 0}),
        ("tokenizer", {"tokenizer": "o200k_base"}),
    ],
)
def test_settings_out_of_range_are_refused_by_name(
    loc: str, config: dict[str, Any]
) -> None:
    bench = Bench(**BARE)
    with pytest.raises(InvalidError) as refusal:
        bench.do(AmendThread(config=config))
    assert refusal.value.loc == f"config.{loc}"
    if loc not in FIXED:
        with pytest.raises(InvalidError):
            Bench(**{**BARE, **config})


def test_passive_mode_needs_no_reserve() -> None:
    bench = Bench(**{**BARE, "reserved_tokens": 0, "mode": "passive"})
    with pytest.raises(InvalidError):
        bench.do(AmendThread(config={"mode": "strict"}))


def test_settings_ranges_name_existing_settings() -> None:
    assert {*paging_config.RANGES} <= {*PagingSettings.__slots__}
    paging_config.check(PagingSettings())


# Forks


def test_fork_begins_with_the_working_set_of_its_parent() -> None:
    parent = build_lived_thread()
    child = parent.fork(thread=9, **BARE)
    before = state_json.to_json(parent.state)["paging"]
    after = state_json.to_json(child.state)["paging"]
    assert [*map(place, after["frames"])] == [*map(place, before["frames"])]
    for name in ("used", "pins", "history", "spent", "counts", "last_user", "pages"):
        assert after[name] == before[name]


def build_lived_thread() -> Bench:
    bench = Bench(**BARE, thread=1)
    append(bench, 50, role="user")
    bench.do(BeginTurn())
    append(bench, 300, 300, 300)
    make(bench, build_page("claim", 60, type="claim"))
    bench.do(PinPage(page_id="claim"))
    bench.do(EvictPage(page_id="slot-1"))
    bench.do(FaultPage(page_id="slot-1", level=0))
    return bench


def place(frame: list[Any]) -> list[Any]:
    """Return a frame without its entry, whose locations name their thread."""
    return [frame[0][0], *frame[1:]]


def test_fork_event_is_newer_than_inherited_events() -> None:
    """The fork's seqs begin at 1 again; its clock goes on."""
    parent = build_lived_thread()
    child = parent.fork(thread=9, **BARE)
    grandchild = child.fork(thread=10, **BARE)
    for bench in (child, grandchild):
        assert bench.state.seq == 1
        append(bench, 20)
        assert bench.mapped == [*parent.mapped, "slot-4"]
        assert bench.state.clock == parent.state.clock + bench.state.depth + 1
        frames = bench.paging.frames.values()
        assert bench.frame("slot-4").referenced_seq == max(
            frame.referenced_seq for frame in frames
        )


def test_exchange_of_a_fork_goes_on() -> None:
    child = build_lived_thread().fork(thread=9, **BARE)
    append(child, 20, role="user")
    assert not child.do(BeginTurn())[0].continues
    assert child.paging.last_user == (4, child.state.clock - 1)


def test_locations_of_a_fork_name_the_thread_that_wrote() -> None:
    parent = build_lived_thread()
    child = parent.fork(thread=9, **BARE)
    child.do(ReferencePages(page_ids=("claim",)))
    child.do(WriteLevels(made=build_levels("claim", 20)))
    child.restart()
    full, reduced, *_ = child.frame("claim").entry.levels
    assert full is not None
    assert reduced is not None
    assert full.location.thread == parent.state.id
    assert reduced.location.thread == child.state.id
    assert child.frame("claim").entry == child.rows.live["claim"]
    assert parent.frame("claim").entry.levels[1] is None


def test_fork_with_a_smaller_budget_lets_go_of_what_does_not_fit() -> None:
    parent = build_lived_thread()
    used = parent.paging.used
    less = {"budget_tokens": 2_000, "reserved_tokens": 1_000, "l1_pages": 1}
    child = parent.fork(thread=9, **{**BARE, **less})
    events = [recorded.event for recorded in child.log]
    assert isinstance(events[0], ThreadForked)
    assert list_of_kind(events, PageEvicted)
    assert_fits(child.state)
    # Pages just fetched for the exchange stay, so the run may end above its aim.
    assert child.paging.used <= child.paging.settings.usable
    assert "claim" in child.mapped
    assert parent.paging.used == used


def test_fork_that_pins_do_not_fit_is_refused() -> None:
    parent = build_lived_thread()
    with pytest.raises(PinBudgetError):
        parent.fork(thread=9, **BARE, pin_share=0.01)


def test_fork_has_the_config_of_its_parent_unless_told_otherwise() -> None:
    parent = Bench(**BARE, observe=True, max_slots=9, blocks=True)
    chosen = parent.state.config
    assert parent.fork(thread=9).state.config == chosen
    told: dict[str, Any] = {"observe": None, "budget_tokens": 9_000}
    child = parent.fork(thread=9, **told)
    assert child.state.config == chosen.model_copy(update=told)
    assert not child.paging.settings.observe


def test_fork_counts_as_its_parent_does() -> None:
    parent = Bench(**BARE, tokenizer="o200k_base")
    child = parent.fork(thread=9, **BARE)
    assert child.paging.settings.tokenizer == "o200k_base"
    with pytest.raises(InvalidError):
        parent.fork(thread=9, **BARE, tokenizer="est/1")


def test_levels_we_make_count_in_proportion_to_what_the_agent_said() -> None:
    ours, theirs = Bench(**BARE), Bench(**BARE, tokenizer="o200k_base")
    twice = build_slot(700, "tool")
    ours.do(AppendSlots(slots=(twice,)))
    theirs.do(AppendSlots(slots=(build_slot(1_400, "tool", cost=1_400),)))
    for bench, tokens in ((ours, 700), (theirs, 1_400)):
        entry = bench.frame("slot-0").entry
        full, *rest = [level.tokens for level in entry.levels if level is not None]
        assert full == tokens
        assert rest == sorted(rest, reverse=True)
        assert rest[0] <= full / 2
