"""Rules of observing: the observation that replaces each message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from memoryhub.errors import (
    LogChangedError,
    NothingToDoError,
    PinnedByLogError,
    RangeOpenError,
    RangeTakenError,
    StaleEpochError,
)
from memoryhub.kernel.commands import AppendSlots, EraseRecords
from memoryhub.kernel.context import log_lines
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.observing.observing import (
    ActivateObservations,
    CreateObservation,
    CreateReflection,
    PauseObserver,
)
from memoryhub.kernel.paging.page_commands import BeginTurn, EvictPage
from memoryhub.kernel.state.paging_config import PagingSettings
from tests.kernel.observing.test_fuzz import build_observation
from tests.oracles.paging import Bench, build_page, build_slot, make


def build_observed_thread(budget: int = 9_000, **config: Any) -> Bench:
    """Build a thread with 8,000 usable tokens, unless told otherwise."""
    return Bench(budget_tokens=budget, reserved_tokens=1_000, observe=True, **config)


def say(bench: Bench, *roles: str, tokens: int = 100) -> None:
    for role in roles:
        bench.do(AppendSlots(slots=(build_slot(tokens, role),)))


def observe(bench: Bench, begin: int, end: int, *, epoch: int | None = None) -> str:
    seen = bench.state.observing
    made = build_observation(begin, end, raw=100 * (end - begin))
    epoch = seen.epoch if epoch is None else epoch
    *_, event = bench.do(CreateObservation(made=made, epoch=epoch))
    page_id: str = event.page_id
    return page_id


def reflection(bench: Bench, *covers: str) -> CreateReflection:
    seen = bench.state.observing
    read = [each for each in seen.log if each.page_id in covers]
    begin, end = read[0].begin, read[-1].end
    raw = sum(each.raw for each in read)
    made = build_observation(begin, end, raw=raw, covers=[*covers], tokens=raw // 10)
    return CreateReflection(made=made, epoch=seen.epoch)


def settings(usable: int, **more: Any) -> PagingSettings:
    return PagingSettings(budget_tokens=usable, reserved_tokens=0, observe=True, **more)


@pytest.mark.parametrize(
    ("remaining", "cycles", "every"),
    [(40_000, 4, 10_000), (200_000, 2, 30_000), (10_000, 4, 5_000)],
)
def test_observing_interval_follows_the_remaining_tokens(
    remaining: int, cycles: int, every: int
) -> None:
    chosen = settings(1_000_000, observe_at=1.0, observe_cycles=cycles)
    assert formulas.compute_interval(chosen, 1_000_000 - remaining, None) == every


def test_observing_cap_takes_precedence_over_the_floor() -> None:
    assert formulas.compute_cap(settings(1_000_000), 30_000) == 18_000
    assert formulas.compute_interval(settings(8_000), 0, None) == 2_000
    assert formulas.compute_interval(settings(1_000_000), 0, 5_000) == 3_000


@pytest.mark.parametrize("usable", [1, 3, 2_000])
def test_observing_thresholds_are_never_zero(usable: int) -> None:
    chosen = settings(usable, reflect_at=0.02)
    assert formulas.compute_interval(chosen, usable, 1) >= 1
    assert formulas.compute_keep(chosen) >= 1
    assert formulas.compute_reflect_at(chosen, 1) >= 1


def test_late_observation_survives_reflection() -> None:
    bench = build_observed_thread(observe_keep_tokens=100)
    say(bench, *["user"] * 9)
    first, second = observe(bench, 0, 3), observe(bench, 3, 5)
    bench.do(ActivateObservations())
    asked = reflection(bench, first, second)
    third = observe(bench, 5, 7)
    bench.do(asked)
    log = [each.page_id for each in bench.state.observing.log]
    assert log[0].startswith("ref-")
    assert third in {*log, *(each.page_id for each in bench.state.observing.chunks)}


def test_concurrent_chunk_survives_reflection() -> None:
    bench = build_observed_thread()
    say(bench, *["user"] * 9)
    first = observe(bench, 0, 3)
    bench.do(ActivateObservations())
    asked = reflection(bench, first)
    second = observe(bench, 3, 6)
    bench.do(ActivateObservations())
    bench.do(asked)
    assert [each.page_id for each in bench.state.observing.log][1:] == [second]
    with pytest.raises(LogChangedError):
        bench.do(asked)
    assert bench.state.observing.generation == 1


def test_reflection_waits_for_its_activation() -> None:
    bench = build_observed_thread()
    say(bench, *["user"] * 9)
    first = observe(bench, 0, 3)
    bench.do(ActivateObservations())
    late = replace(reflection(bench, first), now=False)
    bench.do(late)
    waits = bench.state.observing.ahead
    with pytest.raises(NothingToDoError):
        bench.do(late)
    assert bench.state.observing.ahead == waits
    bench.do(replace(late, now=True))
    assert bench.state.observing.ahead is None


def test_observing_cursor_never_moves_back() -> None:
    bench = build_observed_thread()
    say(bench, *["user"] * 9)
    observe(bench, 0, 3)
    bench.do(ActivateObservations())
    (made,) = bench.state.observing.log
    place = bench.state.locate_event(made.clock)
    ranges = ((place[0], place[1], place[1]),)
    bench.do(EraseRecords(erasure=UUID(int=9), reason="mistake", ranges=ranges))
    seen = bench.state.observing
    assert (seen.cursor, seen.watermark, seen.list_gaps()) == (3, 3, [(0, 3)])
    assert seen.list_uncovered(9) == [(0, 3), (3, 9)]
    observe(bench, 0, 3)
    assert bench.state.observing.list_gaps() == []
    assert bench.state.observing.log[0].end == 3


def test_gap_is_filled_though_an_erasure_made_the_log_too_long() -> None:
    """The reflected range is raw again; without a gap it can be condensed again."""
    bench = build_observed_thread(3_000, observe_keep_tokens=100)
    say(bench, *["user"] * 80)
    parts = [observe(bench, n, n + 10) for n in range(0, 50, 10)]
    while bench.state.observing.chunks:
        bench.do(ActivateObservations())
    bench.do(reflection(bench, *parts))
    for n in (50, 60):
        observe(bench, n, n + 10)
        bench.do(ActivateObservations())
    log = bench.state.observing.log
    places = [
        bench.state.locate_event(each.clock) for each in (log[0], log[0].covers[1])
    ]
    ranges = tuple((thread, seq, seq) for thread, seq in places)
    bench.do(EraseRecords(erasure=UUID(int=9), reason="mistake", ranges=ranges))
    assert bench.state.observing.list_gaps() == [(10, 20)]
    assert formulas.compute_log_room(bench.state) < 0
    observe(bench, 10, 20)
    assert bench.state.observing.list_gaps() == []
    bench.do(reflection(bench, *(each.page_id for each in bench.state.observing.log)))
    assert formulas.compute_log_room(bench.state) > 0


def test_gap_ends_at_the_cursor() -> None:
    """Messages before and behind the cursor can be observed again, each range alone."""
    bench = build_observed_thread()
    say(bench, *["user"] * 9)
    observe(bench, 0, 3)
    bench.do(ActivateObservations())
    observe(bench, 3, 6)
    seen = bench.state.observing
    places = [
        bench.state.locate_event(each.clock) for each in (*seen.log, *seen.chunks)
    ]
    ranges = tuple((home, seq, seq) for home, seq in places)
    bench.do(EraseRecords(erasure=UUID(int=9), reason="mistake", ranges=ranges))
    assert bench.state.observing.list_gaps() == [(0, 3), (3, 6)]
    for begin, end in bench.state.observing.list_gaps():
        observe(bench, begin, end)
    seen = bench.state.observing
    assert [(each.begin, each.end) for each in (*seen.log, *seen.chunks)] == [
        (0, 3),
        (3, 6),
    ]


def test_activation_by_hand_condenses_a_long_log() -> None:
    bench = build_observed_thread(3_000, reflect_at=0.02)
    say(bench, *["user"] * 9)
    first = observe(bench, 0, 3)
    bench.do(ActivateObservations())
    bench.do(replace(reflection(bench, first), now=False))
    observe(bench, 3, 6)
    events = bench.do(ActivateObservations())
    assert [each.event_type for each in events][-2:] == [
        "observations.activated",
        "log.reflected",
    ]
    # One that saves nothing is none.
    (made, *_) = bench.state.observing.log
    same = reflection(bench, made.page_id)
    assert same.made is not None
    body = same.made.observed.model_copy(update={"shown": made.tokens})
    with pytest.raises(NothingToDoError):
        bench.do(replace(same, made=replace(same.made, observed=body)))


def test_observation_with_a_stale_epoch_or_range_is_refused() -> None:
    bench = build_observed_thread()
    say(bench, *["user"] * 4)
    bench.do(PauseObserver())
    with pytest.raises(StaleEpochError):
        observe(bench, 0, 2, epoch=0)
    observe(bench, 0, 2)
    with pytest.raises(RangeTakenError):
        observe(bench, 1, 3)
    with pytest.raises(RangeTakenError):
        observe(bench, 3, 4)


def test_activation_keeps_running_call() -> None:
    bench = build_observed_thread()
    say(bench, "user", "assistant", "tool", "tool", "user", "assistant")
    for end in (2, 3, 6):
        with pytest.raises(RangeOpenError):
            observe(bench, 0, end)
    observe(bench, 0, 4)
    assert formulas.choose_end(0, [(9, "user"), (9, "assistant")], 99, all_of=True) == 1


def test_full_window_keeps_user_message() -> None:
    bench = build_observed_thread()
    say(bench, "user", *["assistant"] * 60, tokens=120)
    observe(bench, 0, 60)
    bench.do(BeginTurn())
    assert "slot-0" in bench.paging.frames
    assert "slot-59" not in bench.paging.frames
    assert bench.state.observing.cursor == 60
    with pytest.raises(PinnedByLogError):
        bench.do(EvictPage(page_id=bench.state.observing.log[0].page_id))


def test_eviction_never_skips_unobserved() -> None:
    bench = build_observed_thread()
    spoken = {f"slot-{n}" for n in range(40)}
    make(bench, *(build_page(f"old-{n}", 150) for n in range(20)))
    say(bench, *["user", "assistant"] * 20, tokens=150)
    assert spoken <= {*bench.paging.frames}
    # A page pinned as new stays until the turn, which shows all messages.
    make(bench, *(build_page(f"new-{n}", 150) for n in range(20)))
    assert not spoken <= {*bench.paging.frames}
    bench.do(BeginTurn())
    assert spoken <= {*bench.paging.frames}


def test_uncovered_slots_leave_last_and_return_at_turn() -> None:
    bench = build_observed_thread()
    say(bench, *["user", "assistant"] * 25, tokens=150)
    # More than there is room for, while nobody observes.
    assert len(bench.paging.frames) == 50
    say(bench, *["user", "assistant"] * 10, tokens=150)
    away = {f"slot-{n}" for n in range(70)} - {*bench.paging.frames}
    assert away
    pieces = tuple(build_observation(n, n + 10, raw=1_500) for n in range(0, 60, 10))
    (began,) = [
        event
        for event in bench.do(BeginTurn(observed=pieces))
        if event.event_type == "turn.began"
    ]
    cursor = bench.state.observing.cursor
    assert 0 < cursor < 70
    assert {f"slot-{n}" for n in range(cursor, 70)} <= {*bench.paging.frames}
    assert not began.over_budget


def test_request_without_room_says_so() -> None:
    bench = build_observed_thread()
    say(bench, *["user", "assistant"] * 40, tokens=150)
    (began,) = [
        event for event in bench.do(BeginTurn()) if event.event_type == "turn.began"
    ]
    assert began.over_budget


def test_log_prefix_is_stable() -> None:
    def logged(*texts: str) -> str:
        opened = [
            OpenedPage(
                page_id=f"obs-{n}",
                type="summary",
                modality="text",
                content={"text": f"{text}\n{log_lines.HINT}current task: {n}"},
            )
            for n, text in enumerate(texts)
        ]
        return log_lines.remove_hints("\n".join(log_lines.list_texts(opened)))

    assert logged("one", "two", "three").startswith(logged("one", "two"))
    assert log_lines.HINT not in logged("one", "two")
