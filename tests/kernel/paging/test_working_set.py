"""The working set: what is mapped, and what leaves for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.errors import NoRoomError, PinnedError
from memoryhub.kernel.commands import AmendThread, AppendSlots
from memoryhub.kernel.paging.eviction import eviction, pins
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    EvictPage,
    FaultPage,
    MapPage,
    PinPage,
    ReferencePages,
    WriteLevels,
)
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageCreated,
    PageEvicted,
    PageLowered,
    PageMapped,
)
from tests.oracles.paging import (
    BARE,
    SMALL,
    Bench,
    build_levels,
    build_page,
    build_slot,
    list_of_kind,
    make,
)


def append(bench: Bench, *sizes: int, role: str = "assistant") -> list[Any]:
    return bench.do(AppendSlots(slots=tuple(build_slot(size, role) for size in sizes)))


def test_map_twice_charges_once() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 300))
    assert bench.do(MapPage(page_id="a", level=0)) == []
    assert bench.paging.used == 300
    bench.do(MapPage(page_id="a", level=1, made=build_levels("a", 140, 120, 110)))
    assert bench.do(MapPage(page_id="a", level=1)) == []
    assert bench.paging.used == 140
    bench.do(MapPage(page_id="a", level=0))
    assert bench.paging.used == 300
    # Hits and misses are told by events, and where nothing happened there is none.
    assert bench.paging.tlb.hits == 2


def test_page_that_is_mapped_again_stands_at_the_end() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a"), build_page("b"))
    bench.do(MapPage(page_id="a", level=1, made=build_levels("a", 40)))
    assert bench.mapped == ["a", "b"]
    bench.do(EvictPage(page_id="a"))
    bench.do(MapPage(page_id="a", level=0))
    assert bench.mapped == ["b", "a"]


def test_level_asked_for_is_the_greatest_there_is() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(MapPage(page_id="a", level=2, made=build_levels("a", 40, None, 10)))
    assert bench.frame("a").level == 1


def test_run_begins_above_evict_at_and_ends_at_evict_to() -> None:
    bench = Bench(**BARE)
    assert list_of_kind(append(bench, *[68] * 20), PageEvicted) == []
    assert bench.paging.used == 1_360 == bench.paging.settings.high
    events = append(bench, 1)
    assert [event.page_id for event in list_of_kind(events, PageEvicted)] == [
        f"slot-{n}" for n in range(4)
    ]
    assert bench.paging.used == 1_360 - 4 * 68 + 1 <= bench.paging.settings.low


@given(
    budget=st.integers(2_000, 50_000),
    reserved=st.integers(800, 1_000),
    at=st.integers(50, 100).map(lambda n: n / 100),
    to=st.integers(10, 45).map(lambda n: n / 100),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=40),
)
def test_budget_follows_the_settings(
    budget: int, reserved: int, at: float, to: float, sizes: list[int]
) -> None:
    bench = Bench(
        budget_tokens=budget,
        reserved_tokens=reserved,
        evict_at=at,
        evict_to=to,
        auto_pin_turns=0,
    )
    usable = budget - reserved
    for size in sizes:
        before = bench.paging.used
        events = append(bench, size, role="tool")
        ran = bool(list_of_kind(events, PageEvicted))
        assert ran == (before > 0 and before + size > at * usable)
        if ran and size <= int(to * usable):
            assert bench.paging.used <= int(to * usable)


def test_page_creation_tells_whether_it_was_mapped() -> None:
    bench = Bench(**BARE)
    events = make(
        bench,
        build_page("big", 641),
        build_page("kept", 100, map=False),
        build_page("ok", 640),
    )
    assert [event.mapped for event in list_of_kind(events, PageCreated)] == [
        False,
        False,
        True,
    ]
    assert bench.mapped == ["ok"]
    assert {*bench.paging.hot} == {"big", "kept"}
    with pytest.raises(NoRoomError):
        bench.do(MapPage(page_id="big"))


def test_slot_too_large_is_mapped_at_the_level_that_fits() -> None:
    bench = Bench(**BARE)
    events = append(bench, 1_700)
    assert [*map(type, events)] == [SlotAppended, PageCompressed, PageMapped]
    assert not events[0].page.mapped
    assert bench.frame("slot-0").level == 1
    assert not bench.paging.hot


def test_slot_is_whole_for_as_long_as_its_exchange_lasts() -> None:
    bench = Bench(**BARE)
    append(bench, 100, role="user")
    events = append(bench, 900)
    # Its levels are made now: once it is history it is larger than a page may be.
    assert [*map(type, events)] == [SlotAppended, PageCompressed]
    assert bench.frame("slot-1").level == 0
    events = append(bench, 100, role="user")
    assert [event.page_id for event in list_of_kind(events, PageLowered)] == ["slot-1"]
    assert bench.frame("slot-1").level == 1


def test_batch_shrinks_the_same_pages_as_single_appends() -> None:
    sizes = [100, 900, 100, 300, 100, 1_000, 800, 100, 700, 100]
    said = [build_slot(size, "user" if size == 100 else "assistant") for size in sizes]
    batch, single = Bench(**BARE), Bench(**BARE)
    events = batch.do(AppendSlots(slots=tuple(said)))
    one_by_one = [each for one in said for each in single.do(AppendSlots(slots=(one,)))]
    assert len(list_of_kind(events, PageLowered)) > 1
    assert events == one_by_one
    assert batch.paging == single.paging


def test_newest_messages_of_an_exchange_stay() -> None:
    bench = Bench(**BARE)
    append(bench, 100, role="user")
    append(bench, 600, 600, 600)
    assert bench.mapped == ["slot-0", "slot-2", "slot-3"]


def test_user_slot_that_fits_at_no_level_is_refused() -> None:
    bench = Bench(**{**SMALL, "pin_share": 0.9, "map_slots": False})
    short = build_slot(3, "user", cost=1_700)
    with pytest.raises(NoRoomError):
        bench.do(AppendSlots(slots=(short,)))
    bench.do(AppendSlots(slots=(build_slot(3, "tool", cost=1_700),)))
    assert {*bench.paging.hot} == {"slot-0"}


def test_upgrade_that_does_not_fit_leaves_the_frame_alone() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 900, map=False))
    bench.do(MapPage(page_id="a", level=1, made=build_levels("a", 300, 100)))
    assert bench.do(MapPage(page_id="a", level=0)) == []
    assert bench.frame("a").level == 1
    # The page is not lowered either to the level that a new page would get.
    bench.do(AmendThread(config={"pin_share": 0.9}))
    assert bench.do(MapPage(page_id="a", level=0)) == []
    assert bench.frame("a").level == 1


def test_fetched_page_is_marked_as_recalled_while_mapped() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100), build_page("b", 100, map=False))
    bench.do(FaultPage(page_id="b", level=1, made=build_levels("b", 40)))
    at = bench.frame("b").mapped_seq
    bench.do(MapPage(page_id="b", level=0))
    assert (bench.frame("b").recalled, bench.frame("b").mapped_seq) == (True, at)
    bench.do(EvictPage(page_id="b"))
    bench.do(MapPage(page_id="b", level=0))
    assert [bench.frame(name).recalled for name in ("a", "b")] == [False, False]


def test_pinned_page_is_neither_evicted_nor_lowered_by_request() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(WriteLevels(made=build_levels("a", 140)))
    bench.do(PinPage(page_id="a"))
    for command in (EvictPage(page_id="a"), MapPage(page_id="a", level=1)):
        with pytest.raises(PinnedError):
            bench.do(command)


def test_pages_are_lowered_before_they_leave_if_that_saves_half() -> None:
    bench = Bench(**BARE)
    append(bench, 400, 400, 400)
    bench.do(WriteLevels(made=build_levels("slot-0", 200, 100)))
    bench.do(WriteLevels(made=build_levels("slot-1", 201, 100)))
    events = append(bench, 300)
    assert [
        (event.page_id, event.level) for event in list_of_kind(events, PageLowered)
    ] == [("slot-0", 1)]
    # The second pass takes what the first has lowered, if it is still too much.
    assert [event.page_id for event in list_of_kind(events, PageEvicted)] == ["slot-1"]
    assert bench.paging.used == 200 + 400 + 300


def test_lowered_page_is_evicted_when_more_room_is_needed() -> None:
    bench = Bench(**BARE)
    append(bench, 600, 600, role="tool")
    bench.do(WriteLevels(made=build_levels("slot-0", 300)))
    bench.do(WriteLevels(made=build_levels("slot-1", 300)))
    events = append(bench, 600, role="tool")
    assert len(list_of_kind(events, PageLowered)) == 2
    assert [event.page_id for event in list_of_kind(events, PageEvicted)] == ["slot-0"]


def test_lowered_page_that_fits_among_the_pins_stays() -> None:
    bench = Bench(**SMALL)
    append(bench, 600, 300, 300)
    assert {*pins.list_pinned(bench.state)} == {"slot-1", "slot-2"}
    bench.do(WriteLevels(made=build_levels("slot-0", 300)))
    events = append(bench, 250)
    assert [event.page_id for event in list_of_kind(events, PageLowered)] == ["slot-0"]
    # Still more than a run leaves, but at 300 tokens it has a place among the pins.
    assert list_of_kind(events, PageEvicted) == []
    assert bench.paging.used == 300 + 300 + 300 + 250


@pytest.mark.parametrize("kind", ["claim", "index", "summary"])
def test_claims_indexes_and_summaries_are_never_lowered(kind: str) -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 600, type=kind, importance=0.0))
    bench.do(WriteLevels(made=build_levels("a", 100)))
    events = append(bench, 400, 400)
    assert list_of_kind(events, PageLowered) == []
    assert [event.page_id for event in list_of_kind(events, PageEvicted)] == ["a"]


def test_working_set_never_freezes_without_turns() -> None:
    bench = Bench(**SMALL, max_faults_per_turn=1_000, max_fault_tokens_per_turn=90_000)
    for number in range(60):
        events = append(bench, 90, role="user" if number % 7 == 0 else "tool")
        assert list_of_kind(events, SlotAppended) == events[-1:]
        assert events[-1].page.mapped
    # Even when everything that is mapped was just fetched back.
    for number in range(60):
        bench.do(FaultPage(page_id=f"slot-{number}", level=0))
    assert bench.state.turn_count == 0
    assert append(bench, 600)[-1].page.mapped


def test_faulted_page_is_protected_for_two_turns() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", map=False), build_page("b"))
    bench.do(FaultPage(page_id="a"))
    for expected in (["a"], ["a"], []):
        assert protected(bench) == expected
        bench.do(BeginTurn())


def test_returned_page_is_protected_for_three_turns() -> None:
    bench = Bench(**BARE)
    append(bench, 100, 100)
    bench.do(EvictPage(page_id="slot-0"))
    bench.do(BeginTurn())
    bench.do(MapPage(page_id="slot-0"))
    for expected in (["slot-0"], ["slot-0"], []):
        assert protected(bench) == expected
        bench.do(BeginTurn())


def test_protected_pages_leave_last() -> None:
    bench = Bench(**BARE)
    append(bench, 300, 300, 300, 300, role="tool")
    bench.do(EvictPage(page_id="slot-0"))
    bench.do(FaultPage(page_id="slot-0", level=0))
    bench.do(ReferencePages(page_ids=("slot-1", "slot-2", "slot-3")))
    events = append(bench, 600, 600, role="tool")
    assert [event.page_id for event in list_of_kind(events, PageEvicted)] == [
        "slot-1",
        "slot-2",
        "slot-3",
        "slot-4",
    ]


def protected(bench: Bench) -> list[str]:
    _, inside, _ = eviction.list_victims(bench.state)
    return [frame.page_id for _, frame in inside]
