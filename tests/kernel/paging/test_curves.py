"""Curves of the TLB beside plain simulators, and beside what threads recorded."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from itertools import combinations
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel import replay
from memoryhub.kernel.commands import AppendSlots, EraseRecords
from memoryhub.kernel.paging import curves, policy_runs
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    FaultPage,
    FlushTlb,
    InvalidateTlb,
    ReferencePages,
)
from memoryhub.kernel.paging.paging_trace import (
    ABSENT,
    DROP,
    FLUSH,
    LOOK,
    MAKE,
    PagingTrace,
    TlbStep,
)
from memoryhub.kernel.state.policies import POLICIES
from memoryhub.kernel.state.state import ThreadState
from tests.kernel.state.test_paging_lives import live_steps
from tests.oracles.paging import BARE, Bench, build_slot

PAGES = st.sampled_from("abcdefgh")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just(LOOK), PAGES),
        st.tuples(st.just(LOOK), PAGES),
        st.tuples(st.sampled_from([MAKE, DROP]), PAGES),
        st.sampled_from([(FLUSH, ""), (ABSENT, "")]),
    ),
    max_size=60,
)
HELD = st.lists(PAGES, unique=True, max_size=5)


def count_by_lru(held: Sequence[str], steps: Sequence[TlbStep], size: int) -> int:
    lru = OrderedDict.fromkeys(held[-size:] if size else ())
    misses = 0
    for kind, page_id in steps:
        if kind == FLUSH:
            lru.clear()
        elif kind == DROP:
            lru.pop(page_id, None)
        elif kind == ABSENT:
            misses += 1
        else:
            misses += kind == LOOK and page_id not in lru
            lru[page_id] = None
            lru.move_to_end(page_id)
            if len(lru) > size:
                lru.popitem(last=False)
    return misses


def count_by_sieve(held: Sequence[str], steps: Sequence[TlbStep], size: int) -> int:
    """Simulate SIEVE on a ring, in which places of pages that left are closed."""
    queue, bits, hand, misses = [*held[-size:]] if size else [], set[str](), 0, 0
    for kind, page_id in steps:
        if kind == FLUSH:
            queue, bits, hand = [], set(), 0
        elif kind == DROP and page_id in queue:
            hand -= queue.index(page_id) < hand
            queue.remove(page_id)
            bits.discard(page_id)
        elif kind == ABSENT:
            misses += 1
        elif kind != DROP and page_id in queue:
            bits.add(page_id)
        elif kind != DROP:
            misses += kind == LOOK
            while size and len(queue) >= size:
                hand %= len(queue)
                if queue[hand] in bits:
                    bits.remove(queue[hand])
                    hand += 1
                else:
                    del queue[hand]
            queue += [page_id] if size else []
    return misses


def count_by_search(held: Sequence[str], steps: Sequence[TlbStep], size: int) -> int:
    """Search all choices of what to hold for the fewest misses."""
    best = {frozenset(held[-size:] if size else ()): 0}
    for kind, page_id in steps:
        after: dict[frozenset[str], int] = {}
        for kept, misses in best.items():
            more = kind == ABSENT or (kind == LOOK and page_id not in kept)
            wider = {*kept, page_id} if kind in (LOOK, MAKE) else {*kept} - {page_id}
            wider = set() if kind == FLUSH else wider
            for each in combinations(sorted(wider), min(size, len(wider))):
                now = frozenset(each)
                after[now] = min(after.get(now, 1_000), misses + more)
        best = after
    return min(best.values())


@given(held=HELD, steps=STEPS)
def test_curve_equals_plain_simulators_at_every_size(
    held: list[str], steps: list[TlbStep]
) -> None:
    depths = curves.count_depths(held, steps)
    for size in range(10):
        lru = curves.count_lru_misses(depths, size)
        sieve = curves.count_sieve_misses(held, steps, size)
        (least,) = curves.count_least_misses(held, steps, [size])
        assert lru == count_by_lru(held, steps, size)
        assert sieve == count_by_sieve(held, steps, size)
        assert least <= min(lru, sieve)


@given(held=HELD, steps=STEPS.map(lambda steps: steps[:14]), size=st.integers(0, 3))
def test_belady_is_the_fewest_misses_of_all_choices(
    held: list[str], steps: list[TlbStep], size: int
) -> None:
    (least,) = curves.count_least_misses(held, steps, [size])
    assert least == count_by_search(held, steps, size)


def follow(bench: Bench) -> tuple[PagingTrace, list[ThreadState]]:
    """Trace the bench's own events, and return the state after each."""
    trace = PagingTrace(0, size=bench.origin.paging.settings.tlb_entries)
    states = [bench.origin]
    for recorded in bench.log:
        states.append(replay.evolve(states[-1], recorded))
        trace.add(recorded.event, state=states[-1], seq=recorded.seq)
    return trace, states


@pytest.mark.parametrize("seed", range(4))
def test_curve_meets_recorded_misses(seed: int) -> None:
    """Lives with forks, other sizes, deletions; then with tiers and flushes."""
    bench, dice = live_steps(seed, steps=100).bench, random.Random(seed)
    for _ in range(60):
        pages = sorted(bench.rows.live)
        bench.do(
            dice.choice(
                [
                    AppendSlots(slots=(build_slot(5),)),
                    ReferencePages(page_ids=(dice.choice(pages),)),
                    ReferencePages(page_ids=(dice.choice(pages[:6]),)),
                    InvalidateTlb(page_id=dice.choice(pages)),
                    dice.choice([FlushTlb(), InvalidateTlb(tier="L1")]),
                ]
            )
        )
        trace, states = follow(bench)
        base, size = states[trace.base], bench.paging.settings.tlb_entries
        held = [entry.page_id for entry in base.paging.tlb.list_oldest_first()]
        depths = curves.count_depths(held, trace.tlb)
        misses = bench.paging.tlb.misses - base.paging.tlb.misses
        assert curves.count_lru_misses(depths, size) == misses
        hits = bench.paging.tlb.hits - base.paging.tlb.hits
        assert depths.total() == hits + misses


def test_erased_page_leaves_a_hole() -> None:
    bench = Bench(tlb_entries=2)
    bench.do(AppendSlots(slots=(build_slot(5), build_slot(5), build_slot(5))))
    ranges = ((bench.state.id, 3, 3),)
    bench.do(EraseRecords(erasure=UUID(int=9), reason="mistake", ranges=ranges))
    bench.do(ReferencePages(page_ids=("slot-0",)))
    bench.do(ReferencePages(page_ids=("slot-2",)))
    trace, _ = follow(bench)
    assert (DROP, "slot-1") in trace.tlb
    depths = curves.count_depths([], trace.tlb)
    # slot-0 takes the erased page's place, so slot-2 stays.
    assert curves.count_lru_misses(depths, 2) == bench.paging.tlb.misses == 1


# The working set, to first order


def test_larger_budget_would_have_kept_what_was_fetched_back() -> None:
    bench = Bench(**BARE, lower_first=False)
    for _ in range(12):
        bench.do(AppendSlots(slots=(build_slot(200),)))
        bench.do(BeginTurn())
    bench.do(FaultPage(page_id="slot-0"))
    trace, states = follow(bench)
    settings = bench.paging.settings
    runs = policy_runs.list_runs(states[trace.base], trace, settings, [2_400, 9_600])
    assert [run.policy for run in runs] == [*POLICIES] * 2
    for run in runs[: len(POLICIES)]:
        assert run.faults == bench.paging.counts["faults"] == 1
        assert run.evicted_tokens >= 1_000
    for run in runs[len(POLICIES) :]:
        assert (run.faults, run.evicted) == (0, 0)


def test_policies_differ_on_a_scan() -> None:
    """A page in use outlives a scan of pages that nobody uses again, by SIEVE alone."""
    bench = Bench(**BARE, lower_first=False)
    bench.do(AppendSlots(slots=(build_slot(100),)))
    for _ in range(6):
        bench.do(ReferencePages(page_ids=("slot-0",)))
        for _ in range(14):
            bench.do(AppendSlots(slots=(build_slot(100),)))
    bench.do(FaultPage(page_id="slot-0"))
    trace, states = follow(bench)
    settings = bench.paging.settings
    found = policy_runs.list_runs(states[trace.base], trace, settings, [2_400])
    faults = {run.policy: run.faults for run in found}
    assert faults["sieve"] < faults["lru"]
