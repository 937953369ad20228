"""Faults: what they cost, when they are refused, and what they tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.errors import FaultBudgetError, PageUnknownError
from memoryhub.kernel import replay
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging import faults
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    DeletePage,
    EvictPage,
    FaultPage,
    FlushTlb,
    WriteLevels,
)
from memoryhub.kernel.state.page_events import (
    FaultRefused,
    PageCompressed,
    PageEvicted,
    PageFaulted,
    PageReferenced,
)
from memoryhub.kernel.state.paging import FaultSpend
from tests.oracles.paging import (
    BARE,
    SMALL,
    Bench,
    build_levels,
    build_page,
    build_slot,
    list_of_kind,
    make,
    rewrite,
)


def make_unmapped_pages(
    bench: Bench, *sizes: int, map_first: bool = False
) -> list[str]:
    """Make pages p0, p1, … of these sizes that are not mapped."""
    ids = [f"p{n}" for n in range(len(sizes))]
    pages = zip(ids, sizes, strict=True)
    make(bench, *(build_page(each, size, map=map_first) for each, size in pages))
    return ids


def fault(bench: Bench, page_id: str, level: int = 0, **fields: Any) -> Any:
    """Fetch a page and return the command's last event."""
    return bench.do(FaultPage(page_id=page_id, level=level, **fields))[-1]


def append(bench: Bench, *sizes: int) -> None:
    bench.do(AppendSlots(slots=tuple(build_slot(size, "tool") for size in sizes)))


def test_fault_of_a_mapped_page_is_free() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    for level in (0, 2, 3):
        event = fault(bench, "a", level)
        assert isinstance(event, PageReferenced)
        assert event.how == "fault"
    assert bench.paging.spent == FaultSpend()
    assert bench.frame("a").references == 4
    assert bench.frame("a").level == 0


def test_more_faithful_level_than_the_mapped_one_is_a_fault() -> None:
    bench = Bench(**BARE)
    make_unmapped_pages(bench, 100)
    fault(bench, "p0", 1, made=build_levels("p0", 40, 20))
    event = fault(bench, "p0", 0)
    assert isinstance(event, PageFaulted)
    assert (event.level_before, event.level, event.cause) == (1, 0, "upgrade")
    # The tokens served are charged, however little the working set grew.
    assert bench.paging.spent == FaultSpend(faults=2, tokens=140)
    assert bench.paging.used == 100


def test_level_served_is_the_greatest_there_is() -> None:
    bench = Bench(**BARE)
    make_unmapped_pages(bench, 100)
    events = bench.do(
        FaultPage(page_id="p0", level=3, made=build_levels("p0", 40, None))
    )
    assert [*map(type, events)] == [PageCompressed, PageFaulted]
    assert bench.frame("p0").level == 1
    assert bench.frame("p0").recalled


def test_levels_of_another_version_are_left_out() -> None:
    bench = Bench(**BARE)
    make_unmapped_pages(bench, 100)
    stale = build_levels("p0", 40)
    bench.do(rewrite("p0", 90))
    event = fault(bench, "p0", 2, made=stale)
    assert (event.level, event.tokens) == (0, 90)


def test_fault_cap_is_held_against_true_tokens() -> None:
    """No estimate of a level makes a page of 100,000 tokens affordable."""
    bench = Bench(**SMALL)
    make_unmapped_pages(bench, 100_000)
    levels = build_levels("p0", 50_000, 200, 50)
    event = fault(bench, "p0", 0)
    assert event.refusal == "fault_tokens"
    event = fault(bench, "p0", 1, made=levels)
    assert event.refusal == "fault_tokens"
    # Levels made for a refused fault are not kept.
    assert bench.rows.live["p0"].levels[2] is None
    event = fault(bench, "p0", 2, made=levels)
    assert (event.level, event.tokens) == (2, 200)
    assert bench.paging.spent == FaultSpend(faults=1, tokens=200, refusals=2)
    entry = bench.rows.live["p0"]
    assert faults.list_cheaper_levels(entry, tokens_left=199) == [3]
    assert faults.list_cheaper_levels(entry, tokens_left=8_192) == [3, 2]


def test_faults_are_charged_until_none_is_left() -> None:
    bench = Bench(**BARE)
    for page_id in make_unmapped_pages(bench, *[100] * 4)[:3]:
        assert isinstance(fault(bench, page_id), PageFaulted)
    assert fault(bench, "p3").refusal == "fault_budget"
    assert bench.paging.spent == FaultSpend(faults=3, tokens=300, refusals=1)


def test_fault_refusals_are_counted_and_bounded() -> None:
    bench = Bench(**BARE)
    for number in range(10):
        event = fault(bench, f"guess-{number}")
        assert (event.refusal, event.page_id) == ("page_unknown", None)
    before = bench.state
    with pytest.raises(PageUnknownError):
        fault(bench, "guess-10")
    assert bench.state is before
    assert dict(before.paging.counts.items()) == {
        "refused": 10,
        "refused.page_unknown": 10,
    }
    # Whatever else can be had still can.
    make_unmapped_pages(bench, 100)
    assert isinstance(fault(bench, "p0"), PageFaulted)
    bench.do(BeginTurn(continues=False))
    assert isinstance(fault(bench, "guess-11"), FaultRefused)


def test_refusal_past_the_bound_is_raised_by_its_own_word() -> None:
    bench = Bench(**BARE, max_faults_per_turn=0)
    make_unmapped_pages(bench, 100)
    for _ in range(10):
        fault(bench, "p0")
    with pytest.raises(FaultBudgetError):
        fault(bench, "p0")


@pytest.mark.parametrize(
    "page_id", ["", "nothing", "x" * 5_000, "slot-99", "\x00", "💥", "a\nb", "slot--1"]
)
def test_any_id_is_answered_and_sealed(page_id: str) -> None:
    bench = Bench(**BARE)
    drafts = replay.decide(
        bench.state, FaultPage(page_id=page_id), bench.rows, at=bench.at
    )
    assert [draft.event.event_type for draft in drafts] == ["fault.refused"]
    (draft,) = drafts
    assert json.loads(draft.payload or b"") == {"page_id": page_id}
    assert page_id == "" or page_id not in draft.event.model_dump_json()


def test_erased_page_is_told_by_its_name() -> None:
    bench = Bench(**BARE)
    make_unmapped_pages(bench, 100)
    bench.do(DeletePage(page_id="p0"))
    event = fault(bench, "p0")
    assert (event.refusal, event.page_id) == ("page_erased", "p0")


@pytest.mark.parametrize(
    ("threshold", "passing"),
    [("speculative", 4), ("referenced", 3), ("explicit", 1)],
)
def test_reasons_below_the_threshold_are_refused(threshold: Any, passing: int) -> None:
    bench = Bench(**BARE, fault_confidence_threshold=threshold, max_faults_per_turn=10)
    make_unmapped_pages(bench, *[10] * 4)
    reasons = [
        "user_requested_recall",
        "resolve_reference",
        "tool_prereq",
        "speculative",
    ]
    events = [fault(bench, f"p{n}", reason=why) for n, why in enumerate(reasons)]
    assert [isinstance(event, PageFaulted) for event in events].count(True) == passing
    refused = {event.refusal for event in list_of_kind(events, FaultRefused)}
    assert refused <= {"fault_confidence"}
    assert bench.paging.spent.faults == passing


def test_tool_loop_does_not_renew_the_fault_budget() -> None:
    bench = Bench(**BARE)
    bench.do(AppendSlots(slots=(build_slot(10, "user"),)))
    bench.do(BeginTurn())
    for page_id in make_unmapped_pages(bench, *[10] * 4)[:3]:
        fault(bench, page_id)
    for _ in range(5):
        bench.do(BeginTurn(slots=(build_slot(10, "assistant"), build_slot(10, "tool"))))
        assert fault(bench, "p3").refusal == "fault_budget"
    bench.do(BeginTurn(slots=(build_slot(10, "user"),)))
    assert isinstance(fault(bench, "p3"), PageFaulted)


def test_promotion_is_told_truthfully() -> None:
    bench = Bench(**BARE, l1_pages=2)
    make_unmapped_pages(bench, 641, 100)
    bench.do(EvictPage(page_id="p0"))
    for page_id, tier in (("p0", "L2"), ("p1", "L1")):
        event = fault(bench, page_id)
        assert (event.promoted, event.tier_before, event.tier_after) == (
            True,
            tier,
            "L0",
        )
    assert bench.mapped == ["p0", "p1"]


def user_asks(bench: Bench, size: int = 100) -> None:
    """Append a question of the user's and begin the model call that follows."""
    bench.do(BeginTurn(slots=(build_slot(size, "user"),)))


@pytest.mark.parametrize("tokens", [1_500, 1_501])
def test_fault_without_room_is_refused_uncharged(tokens: int) -> None:
    """Beside the question there is room for 1,500 tokens, whatever else is mapped."""
    bench = Bench(**BARE)
    append(bench, 300, 300)
    make_unmapped_pages(bench, tokens)
    user_asks(bench)
    event = fault(bench, "p0")
    if tokens > 1_500:
        assert (event.refusal, bench.paging.spent.faults) == ("no_room", 0)
        assert faults.compute_deliverable(bench.state, "p0") == 1_500
        assert bench.mapped == ["slot-0", "slot-1", "slot-2"]
    else:
        assert bench.mapped == ["slot-2", "p0"]


def test_fetched_page_stays_until_the_next_request_shows_it() -> None:
    """Neither a later fault nor messages of the exchange take its room."""
    bench = Bench(**BARE)
    make_unmapped_pages(bench, 700, 700, 700)
    user_asks(bench)
    fault(bench, "p0")
    fault(bench, "p1")
    assert fault(bench, "p2").refusal == "no_room"
    append(bench, 300, 90)
    assert bench.mapped == ["slot-0", "p0", "p1", "slot-2"]
    # It was delivered; what is asked for from here on may take its place.
    bench.do(BeginTurn())
    assert isinstance(fault(bench, "p2"), PageFaulted)
    assert {"p1", "p2"} <= {*bench.mapped}
    assert "p0" not in bench.mapped


def test_message_of_the_user_goes_before_what_was_fetched() -> None:
    bench = Bench(**BARE)
    make_unmapped_pages(bench, 1_400)
    user_asks(bench)
    fault(bench, "p0")
    user_asks(bench, 900)
    assert bench.mapped == ["slot-0", "slot-1"]


def test_page_keeps_to_its_share_once_its_exchange_is_over() -> None:
    bench = Bench(**BARE)
    make_unmapped_pages(bench, 700, 700)
    user_asks(bench)
    fault(bench, "p0", level=0, made=build_levels("p0", 300))
    bench.do(WriteLevels(made=build_levels("p0", 300)))
    fault(bench, "p1")
    user_asks(bench)
    assert (bench.frame("p0").level, bench.mapped) == (1, ["p0", "slot-0", "slot-1"])


def test_fault_makes_room_and_stands_at_the_end() -> None:
    bench = Bench(**BARE)
    bench.do(AppendSlots(slots=tuple(build_slot(300, "tool") for _ in range(4))))
    bench.do(EvictPage(page_id="slot-0"))
    bench.do(AppendSlots(slots=(build_slot(300, "tool"),)))
    events = bench.do(FaultPage(page_id="slot-0", level=0))
    assert [event.page_id for event in list_of_kind(events, PageEvicted)] == [
        "slot-1",
        "slot-2",
    ]
    assert {event.cause for event in list_of_kind(events, PageEvicted)} == {"pressure"}
    assert bench.mapped == ["slot-3", "slot-4", "slot-0"]


@pytest.mark.parametrize("by", ["user", "model", "tool", "system"])
@pytest.mark.parametrize("reason", [*faults.CONFIDENCE])
def test_fault_records_reason_and_requester(reason: Any, by: Any) -> None:
    bench = Bench(**BARE, fault_confidence_threshold="speculative")
    make_unmapped_pages(bench, 100)
    event = fault(bench, "p0", reason=reason, by=by)
    assert (event.reason, event.by, event.cause) == (reason, by, "fault")
    counts = dict(bench.paging.counts.items())
    assert counts == {
        "faults": 1,
        f"fault.reason.{reason}": 1,
        "fault.from.L1": 1,
    }
    refused = fault(bench, "nothing", reason=reason, by=by)
    assert (refused.reason, refused.by) == (reason, by)


def test_refault_is_counted_and_thrashes_when_few_pages_left_meanwhile() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100), build_page("b", 100))
    bench.do(EvictPage(page_id="a"))
    fault(bench, "a")
    assert bench.paging.count_refaults(0) == 1
    assert {*bench.paging.thrashing} == {"a"}
    for _ in range(5):
        bench.do(BeginTurn())
    assert bench.paging.count_refaults(5) == 0
    assert not bench.paging.thrashing


def test_late_fetch_of_an_evicted_page_is_no_refault() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(EvictPage(page_id="a"))
    for _ in range(6):
        bench.do(BeginTurn())
    fault(bench, "a")
    assert bench.paging.count_refaults(6) == 0


def test_working_set_that_was_turned_over_does_not_thrash() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(EvictPage(page_id="a"))
    bench.do(AppendSlots(slots=tuple(build_slot(400, "tool") for _ in range(8))))
    assert bench.paging.evicted_tokens >= bench.paging.settings.usable
    fault(bench, "a")
    assert bench.paging.count_refaults(0) == 1
    assert not bench.paging.thrashing


def test_upgrade_is_a_refault_that_does_not_thrash() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(EvictPage(page_id="a"))
    for _ in range(6):
        bench.do(BeginTurn())
    fault(bench, "a", 1, made=build_levels("a", 40))
    fault(bench, "a", 0)
    assert bench.paging.count_refaults(6) == 1
    assert not bench.paging.thrashing


def test_paging_histories_are_bounded() -> None:
    """The state's histories are bounded though 1,100 pages come and go in a turn."""
    most = {"max_faults_per_turn": 1_000, "max_fault_tokens_per_turn": 2_000_000}
    bench = Bench(**BARE, **most)
    for number in range(1_100):
        bench.do(AppendSlots(slots=(build_slot(300, "tool"),)))
        if number % 3 == 0:
            fault(bench, f"slot-{number // 2}")
        assert len(bench.paging.history) <= 1_024
        assert len(bench.paging.hot) <= 100
    assert bench.paging.count_refaults(0) > 0
    assert len(bench.paging.refaults) == 1
    for _ in range(21):
        bench.do(BeginTurn())
    left = bench.paging
    assert not any([left.history, left.refaults, left.thrashing])


def test_fault_needs_no_tlb() -> None:
    bench = Bench(**BARE, tlb_entries=0)
    make_unmapped_pages(bench, 100)
    bench.do(EvictPage(page_id="p0"))
    bench.do(FlushTlb())
    event = fault(bench, "p0", 1, made=build_levels("p0", 40))
    assert (event.lookup, event.tier_before) == ("miss", "L2")
    assert bench.frame("p0").entry == bench.rows.live["p0"]
