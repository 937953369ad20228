"""Eviction policies: one contract for every entry of the table, and its own order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.eviction import eviction
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    CreatePages,
    EvictPage,
    FaultPage,
    MapPage,
    ReferencePages,
)
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.page_events import PageEvicted
from memoryhub.kernel.state.paging_config import POLICY_NAMES
from memoryhub.kernel.state.policies import POLICIES, ScoreParts
from tests.oracles.paging import BARE, Bench, build_page, build_slot, list_of_kind

SHARES = st.floats(0, 1)
TERMS = st.builds(
    ScoreParts,
    recency=SHARES,
    value=SHARES,
    penalty=SHARES,
    idle_turns=st.integers(0, 100),
    references=st.integers(0, 10_000),
    weight=SHARES,
    queue=SHARES,
)
every_policy = pytest.mark.parametrize("policy", sorted(POLICIES))


def bare(policy: str = "importance_lru", **config: Any) -> Bench:
    """Build a thread in which nothing is pinned."""
    return Bench(**BARE, policy=policy, **config)


def fill(bench: Bench, number: int = 11, **first: Any) -> None:
    """Make pages p0, p1, …, alike but for the options of the first."""
    pages = [build_page("p0", 20, **first)]
    pages += [build_page(f"p{n}", 20) for n in range(1, number)]
    bench.do(CreatePages(pages=tuple(pages)))


def order(bench: Bench) -> list[str]:
    """Return the ids of the pages that would be evicted, first to last."""
    return [
        frame.page_id
        for ring in eviction.list_victims(bench.state)
        for _, frame in ring
    ]


# The contract


def test_policy_table_matches_the_settings() -> None:
    assert {*POLICIES} == {*POLICY_NAMES}


@every_policy
@given(one=TERMS, other=TERMS)
def test_score_never_falls_when_a_score_part_rises(
    policy: str, one: ScoreParts, other: ScoreParts
) -> None:
    low, high = least(one, other), most(one, other)
    for score in (POLICIES[policy].frame, POLICIES[policy].hot):
        assert 0 <= score(low) <= score(high) <= 1 + 1e-9
        assert score(one) == score(one)


def least(one: ScoreParts, other: ScoreParts) -> ScoreParts:
    return ScoreParts(
        recency=min(one.recency, other.recency),
        value=min(one.value, other.value),
        penalty=min(one.penalty, other.penalty),
        idle_turns=max(one.idle_turns, other.idle_turns),
        references=min(one.references, other.references),
        weight=min(one.weight, other.weight),
        queue=min(one.queue, other.queue),
    )


def most(one: ScoreParts, other: ScoreParts) -> ScoreParts:
    return ScoreParts(
        recency=max(one.recency, other.recency),
        value=max(one.value, other.value),
        penalty=max(one.penalty, other.penalty),
        idle_turns=min(one.idle_turns, other.idle_turns),
        references=max(one.references, other.references),
        weight=max(one.weight, other.weight),
        queue=max(one.queue, other.queue),
    )


@every_policy
def test_lowest_score_goes_first_and_ties_by_age(policy: str) -> None:
    bench = bare(policy)
    fill(bench)
    scores = policies.score_frames(bench.paging, turn=0)
    assert order(bench) == sorted(
        scores, key=lambda each: (scores[each], int(each[1:]))
    )
    events = list_of_kind(bench.do(AppendSlots(slots=(build_slot(600),))), PageEvicted)
    assert [event.page_id for event in events] == order_of(events)
    assert {event.policy for event in events} == {policy}


def order_of(events: list[PageEvicted]) -> list[str]:
    rising = sorted(events, key=lambda event: event.score or 0.0)
    return [event.page_id for event in rising]


@every_policy
def test_eviction_run_is_independent_of_map_order(policy: str) -> None:
    """Persistent maps iterate in another order in every process."""
    one, other = bare(policy), bare(policy)
    fill(one)
    fill(other)
    for bench in (one, other):
        bench.do(ReferencePages(page_ids=("p3", "p1")))
    other.restart()
    assert order(one) == order(other)
    assert one.do(EvictPage(page_id="p2")) == other.do(EvictPage(page_id="p2"))


@every_policy
def test_referenced_page_outlives_its_like(policy: str) -> None:
    bench = bare(policy)
    fill(bench)
    assert order(bench)[0] == "p0"
    bench.do(ReferencePages(page_ids=("p0",)))
    assert order(bench)[0] == "p1"
    assert order(bench)[-1] == "p0"


# By importance


def rated(bench: Bench) -> None:
    fill(bench, importance=0.9)


def of_another_type(bench: Bench) -> None:
    fill(bench, type="claim")


def referenced(bench: Bench) -> None:
    fill(bench)
    bench.do(ReferencePages(page_ids=("p0",)))


def fetched_back(bench: Bench) -> None:
    fill(bench, map=False)
    bench.do(FaultPage(page_id="p0"))
    later = tuple(f"p{n}" for n in range(1, 11))
    bench.do(ReferencePages(page_ids=later))


def gone_and_back(bench: Bench) -> None:
    fill(bench)
    bench.do(EvictPage(page_id="p0"))
    bench.do(MapPage(page_id="p0"))
    later = tuple(f"p{n}" for n in range(1, 11))
    bench.do(ReferencePages(page_ids=later))


@pytest.mark.parametrize(
    "change", [rated, of_another_type, referenced, fetched_back, gone_and_back]
)
def test_each_score_term_changes_the_order(change: Callable[[Bench], None]) -> None:
    alike, other = bare(), bare()
    fill(alike)
    change(other)
    for bench, lowest in ((alike, "p0"), (other, "p1")):
        scores = policies.score_frames(bench.paging, turn=0)
        assert min(scores, key=lambda each: scores[each]) == lowest


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("idle_turns", 0),
        ("references", 5),
        ("value", 0.6),
        ("penalty", 0.5),
    ],
)
def test_each_score_term_changes_the_order_of_the_hot_list(
    change: str, value: float
) -> None:
    parts = ScoreParts(recency=0.0, value=0.5, penalty=0.0, idle_turns=4, references=1)
    score = POLICIES["importance_lru"].hot
    assert score(parts._replace(**{change: value})) > score(parts)  # type: ignore[arg-type]  # a part


def test_scores_are_those_of_the_paging_document() -> None:
    policy = POLICIES["importance_lru"]
    parts = ScoreParts(
        recency=0.5, value=0.25, penalty=0.75, idle_turns=2, references=0
    )
    assert policy.frame(parts) == pytest.approx(0.4 * 0.5 + 0.4 * 0.25 + 0.2 * 0.75)
    assert policy.hot(parts) == pytest.approx(0.3 / 3 + 0.3 * 0.25 + 0.2 * 0.75)
    often = parts._replace(references=10**9)
    assert policy.hot(often) == pytest.approx(0.3 / 3 + 0.2 + 0.3 * 0.25 + 0.2 * 0.75)
    assert POLICIES["lru"].frame(parts) == 0.5


def test_refault_penalty_fades_with_its_window() -> None:
    bench = bare()
    fill(bench)
    bench.do(EvictPage(page_id="p0"))
    bench.do(FaultPage(page_id="p0"))
    faded = [1.0, 0.5 + 0.5 * 2 / 3, 0.5 * 1 / 3, 0.0]
    for turn, expected in enumerate(faded):
        past = bench.paging.history.get("p0")
        found = policies.compute_penalty(past, bench.paging, turn=turn)
        assert found == pytest.approx(expected)
        inside = policies.is_protected(past, bench.paging, turn=turn)
        assert inside == (expected > 0)
        bench.do(BeginTurn())


# By recency alone


def test_lru_knows_nothing_but_recency() -> None:
    bench = bare("lru")
    fill(bench, importance=1.0, type="claim")
    assert order(bench) == [f"p{n}" for n in range(11)]


# By modality


def test_modality_lru_weighs_what_importance_lru_scores() -> None:
    plain, weighed = POLICIES["importance_lru"], POLICIES["modality_lru"]
    parts = ScoreParts(
        recency=0.5, value=0.5, penalty=0.5, idle_turns=2, references=1, weight=0.3
    )
    assert weighed.frame(parts) == pytest.approx(0.3 * plain.frame(parts))
    assert weighed.hot(parts) == pytest.approx(0.3 * plain.hot(parts))


@pytest.mark.parametrize(("policy", "first"), [("lru", "p0"), ("modality_lru", "p9")])
def test_modality_decides_among_equals(policy: str, first: str) -> None:
    bench = bare(policy)
    texts = [build_page(f"p{n}", 20) for n in range(9)]
    bench.do(CreatePages(pages=(*texts, build_page("p9", 20, modality="video"))))
    assert order(bench)[0] == first


# By the hand of SIEVE


def test_sieve_spares_used_pages_once_and_goes_on_from_its_hand() -> None:
    bench = bare("sieve", lower_first=False)
    bench.do(CreatePages(pages=tuple(build_page(f"p{n}", 100) for n in range(8))))
    bench.do(ReferencePages(page_ids=("p0", "p2", "p2")))
    assert order(bench) == ["p1", "p3", "p4", "p5", "p6", "p7", "p0", "p2"]
    # The run needs three pages: the hand passes p0 and p2, whose bits it clears.
    need = bench.paging.settings.low - bench.paging.used + 250
    event, *_ = bench.do(AppendSlots(slots=(build_slot(need),)))
    assert (event.page_ids, event.scores) == (["p1", "p3", "p4"], None)
    assert event.hands[-1] == bench.paging.hand
    assert not any(frame.visited for frame in bench.paging.frames.values())
    assert order(bench)[:5] == ["p5", "p6", "p7", "p0", "p2"]
    bench.restart()
    assert bench.state == bench.refolded()
    child = bench.fork(thread=9, **BARE, policy="sieve")
    assert order(child) == order(bench)


# The hot list


def test_full_hot_list_pushes_out_its_lowest() -> None:
    bench = bare(l1_pages=2)
    fill(bench, importance=0.9)
    for page_id in ("p0", "p1"):
        assert displaced_by(bench, page_id) is None
    assert displaced_by(bench, "p2") == "p1"
    assert {*bench.paging.hot} == {"p0", "p2"}


def test_hot_list_is_scored_anew_when_a_turn_begins() -> None:
    """A page referenced since then outlives its equals, whatever their age."""
    bench = bare(l1_pages=2)
    fill(bench)
    displaced_by(bench, "p0")
    displaced_by(bench, "p1")
    bench.do(BeginTurn())
    bench.do(ReferencePages(page_ids=("p0",)))
    assert displaced_by(bench, "p2") == "p1"


def displaced_by(bench: Bench, page_id: str) -> str | None:
    """Fetch a page and return the page that left the hot list for it."""
    (event,) = list_of_kind(bench.do(EvictPage(page_id=page_id)), PageEvicted)
    return event.displaced
