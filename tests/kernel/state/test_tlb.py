"""The TLB against an independent LRU, and what its events carry."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel import state_json
from memoryhub.kernel.commands import AmendThread, AppendSlots
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
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
from memoryhub.kernel.state import tlb as tlbs
from memoryhub.kernel.state.pages import LevelEntry, Location, PageEntry
from memoryhub.kernel.state.tlb import Tlb
from tests.oracles.paging import (
    BARE,
    Bench,
    build_levels,
    build_page,
    build_slot,
    make,
    rewrite,
)

NAMES = [f"p{n}" for n in range(12)]


def build_entry(page_id: str, version: int = 1) -> PageEntry:
    full = LevelEntry(Location(UUID(int=1), version, 0), 10, 12)
    return PageEntry(
        page_id=page_id,
        version=version,
        type="claim",
        modality="text",
        importance=0.5,
        created_seq=1,
        created_turn=0,
        levels=(full, None, None, None),
    )


@given(
    size=st.integers(0, 9),
    touched=st.lists(
        st.tuples(
            st.sampled_from(["look", "look", "look", "make", "write", "drop", "flush"]),
            st.sampled_from(NAMES),
        ),
        max_size=120,
    ),
)
def test_tlb_hits_and_misses_match_a_plain_lru(
    size: int, touched: list[tuple[str, str]]
) -> None:
    tlb, plain = Tlb(), OrderedDict[str, int]()
    hits = misses = 0
    for version, (act, name) in enumerate(touched):
        held = name in plain
        if act == "look":
            hits, misses = hits + held, misses + (not held)
            tlb = (
                tlb.record_hit(name)
                if held
                else tlb.record_miss(build_entry(name), size=size)
            )
        elif act == "make":
            tlb = tlb.insert(build_entry(name), size=size)
        elif act == "write":
            tlb = tlb.write(build_entry(name, version))
            plain.update({name: version} if held else {})
        elif act == "drop":
            tlb = tlb.drop(name)
            plain.pop(name, None)
        else:
            tlb = tlb.flush()
            plain.clear()
        if act in ("look", "make"):
            weight = plain.pop(name, 1)
            plain[name] = weight if act == "look" else 1
            while len(plain) > size:
                plain.popitem(last=False)
        found = [(each.page_id, each.version) for each in tlb.list_oldest_first()]
        assert found == [*plain.items()]
        assert (tlb.hits, tlb.misses) == (hits, misses)
        # The traces of hits are bounded.
        assert len(tlb.noted) <= 32


@given(
    size=st.sampled_from([0, 1, 3, 8]),
    references=st.lists(st.sampled_from(NAMES), max_size=60),
)
def test_threads_hits_follow_from_its_references(
    size: int, references: list[str]
) -> None:
    bench = Bench(**BARE, tlb_entries=size)
    make(bench, *(build_page(name, 10) for name in NAMES))
    newest = NAMES[::-1][:size]
    hits = 0
    for name in references:
        hits += name in newest
        newest = [name, *(each for each in newest if each != name)][:size]
        bench.do(ReferencePages(page_ids=(name,)))
    assert bench.paging.tlb.hits == hits
    assert bench.paging.tlb.misses == len(references) - hits


def test_tlb_hit_reads_no_row() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100), build_page("b", 100))
    commands: list[Any] = [
        MapPage(page_id="a", level=1, made=build_levels("a", 40)),
        ReferencePages(page_ids=("a", "b")),
        PinPage(page_id="a"),
        UnpinPage(page_id="a"),
        EvictPage(page_id="a"),
        FaultPage(page_id="a", level=0),
        UpdatePage(page_id="a", payload=b"{}", importance=0.1),
        rewrite("a", 50),
        WriteLevels(made=build_levels("a", 20, version=2)),
        DeletePage(page_id="a"),
    ]
    bench.rows.read.clear()
    for command in commands:
        bench.do(command)
    assert bench.rows.read == []
    assert bench.paging.tlb.misses == 0


def test_tlb_miss_reads_and_names_one_row() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100, hinted=True, payload=b'{"hint":"h","text":"t"}'))
    bench.do(WriteLevels(made=build_levels("a", 40, 20)))
    bench.do(FlushTlb())
    bench.rows.read.clear()
    (event,) = bench.do(ReferencePages(page_ids=("a",)))
    assert bench.rows.read == ["a"]
    assert event.lookup == "miss"
    # The fold needs no row: what it holds is what the event carried.
    assert bench.paging.tlb.find("a") == bench.rows.live["a"]
    (event,) = bench.do(ReferencePages(page_ids=("a",)))
    assert (event.lookup, event.entry) == ("hit", None)


def test_replay_gives_equal_counters() -> None:
    bench = Bench(**BARE, tlb_entries=2)
    make(bench, *(build_page(name, 10) for name in NAMES))
    for name in (*NAMES, *NAMES[-3:], "p0", "p0"):
        bench.do(ReferencePages(page_ids=(name,)))
    bench.restart()
    bench.do(ReferencePages(page_ids=("p0", "p1")))
    again = bench.refolded()
    assert state_json.to_json(again) == state_json.to_json(bench.state)
    assert (again.paging.tlb.hits, again.paging.tlb.misses) == (2, 17)


def test_reads_leave_the_tlb_unchanged() -> None:
    """Reading a thread writes no event: only commands look up the TLB."""
    bench = Bench(**BARE, tlb_entries=3)
    make(bench, build_page("a"), build_page("b"))
    bench.do(AppendSlots(slots=(build_slot(10), build_slot(10))))
    before = [each.page_id for each in bench.paging.tlb.list_oldest_first()]
    assert bench.paging.tlb.find("b") is not None
    assert bench.paging.tlb.find("nothing") is None
    after = [each.page_id for each in bench.paging.tlb.list_oldest_first()]
    assert before == after == ["b", "slot-0", "slot-1"]
    # Making pages inserts them uncounted.
    assert (bench.paging.tlb.hits, bench.paging.tlb.misses) == (0, 0)


def test_updated_page_is_never_served_stale() -> None:
    for size in (0, 1, 512):
        bench = Bench(**BARE, tlb_entries=size)
        make(bench, build_page("a", 100), build_page("b", 100, map=False))
        for name in ("a", "b"):
            bench.do(WriteLevels(made=build_levels(name, 40)))
            bench.do(rewrite(name, 170))
            bench.do(FaultPage(page_id=name, level=2))
            assert bench.frame(name).tokens == 170
            assert bench.frame(name).entry == bench.rows.live[name]
            assert bench.frame(name).entry.version == 2


def test_tlb_entry_keeps_its_place_when_written_through() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a"), build_page("b"))
    bench.do(WriteLevels(made=build_levels("a", 40)))
    found = [each.page_id for each in bench.paging.tlb.list_oldest_first()]
    assert found == ["a", "b"]
    held = bench.paging.tlb.find("a")
    assert held is not None
    assert held.levels[1] is not None


@pytest.mark.parametrize(
    ("tier", "gone"), [("L0", {"in"}), ("L1", {"hot"}), ("L2", {"home"}), ("L3", set())]
)
def test_tlb_invalidation_drops_a_tier(tier: Any, gone: set[str]) -> None:
    bench = Bench(**BARE)
    make(
        bench,
        build_page("in"),
        build_page("hot", map=False),
        build_page("home", map=False),
    )
    bench.do(EvictPage(page_id="home"))
    (event,) = bench.do(InvalidateTlb(tier=tier))
    assert event.dropped == len(gone)
    left = {each.page_id for each in bench.paging.tlb.list_oldest_first()}
    assert left == {"in", "hot", "home"} - gone
    # Hits and misses are of the thread, not of what it holds.
    assert bench.paging.tlb.hits == 1


def test_tlb_drops_a_named_page_or_all() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a"), build_page("b"))
    for expected in (1, 0):
        (event,) = bench.do(InvalidateTlb(page_id="a"))
        assert event.dropped == expected
    (event,) = bench.do(InvalidateTlb(page_id="no such page, which is no name"))
    assert event.page_id is None
    (event,) = bench.do(FlushTlb())
    assert event.dropped == 1
    assert bench.paging.tlb.list_oldest_first() == []


def test_smaller_tlb_keeps_the_newest_entries() -> None:
    bench = Bench(**BARE)
    make(bench, *(build_page(name, 10) for name in NAMES))
    bench.do(ReferencePages(page_ids=("p0",)))
    bench.do(AmendThread(config={"tlb_entries": 2}))
    assert [each.page_id for each in bench.paging.tlb.list_oldest_first()] == [
        "p11",
        "p0",
    ]
    bench.do(AmendThread(config={"tlb_entries": 0}))
    assert bench.paging.tlb.list_oldest_first() == []


def test_deleted_page_leaves_the_tlb() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a"))
    bench.do(DeletePage(page_id="a"))
    assert bench.paging.tlb.find("a") is None
    (event,) = bench.do(FaultPage(page_id="a"))
    assert event.lookup == "miss"
    assert bench.paging.tlb.find("a") is None


def test_turn_begins_with_counters_of_its_own() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a"))
    bench.do(ReferencePages(page_ids=("a",)))
    bench.do(BeginTurn())
    bench.do(ReferencePages(page_ids=("a", "a")))
    paging = bench.paging
    assert (paging.tlb.hits, paging.turn_lookups) == (3, (1, 0))
    assert paging.counts["referenced"] - paging.turn_counts["referenced"] == 2


def test_tlb_is_restored_in_its_order() -> None:
    held = tlbs.build_tlb([build_entry("b"), build_entry("a")], hits=3, misses=4)
    assert [each.page_id for each in held.list_oldest_first()] == ["b", "a"]
    after = held.insert(build_entry("c"), size=2)
    assert [each.page_id for each in after.list_oldest_first()] == ["a", "c"]
    assert (after.hits, after.misses) == (3, 4)
