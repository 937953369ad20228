from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from memoryhub.models.threads import Thread
from memoryhub.queries.paging import lives, newcomers, page_views
from memoryhub.queries.paging.lives import LifeStep, PresenceSpan, StepKind
from memoryhub.queries.replay import states
from memoryhub.queries.threads.forks import get_segments
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.inspector.denied import PROMISED, make_denial

pytestmark = pytest.mark.django_db

HOME = UUID(int=1)


@pytest.fixture
def refund(agent: Agent) -> Thread:
    return make_denial(agent)


def step(kind: StepKind, clock: int, **body: Any) -> LifeStep:
    return LifeStep(kind=kind, thread=HOME, seq=clock, clock=clock, turn=1, body=body)


def test_page_that_nothing_moved_stands_as_it_was_made() -> None:
    assert lives.build_spans(3, [], mapped=True) == [
        PresenceSpan(begin=3, end=None, presence="in")
    ]
    assert lives.build_spans(3, [], mapped=False) == [
        PresenceSpan(begin=3, end=None, presence="out")
    ]


def test_stretches_meet_where_the_page_was_moved() -> None:
    steps = [
        step("made", 3),
        step("cited", 5, how="cited"),
        step("shortened", 7, level=2, level_before=0),
        step("left", 9, tier_before="L0"),
        step("fetched", 12, promoted=True, level=0, tier_before="L1"),
        step("deleted", 20),
    ]
    assert lives.build_spans(3, steps, mapped=False) == [
        PresenceSpan(begin=3, end=7, presence="in"),
        PresenceSpan(begin=7, end=9, presence="shortened"),
        PresenceSpan(begin=9, end=12, presence="out"),
        PresenceSpan(begin=12, end=20, presence="fetched"),
    ]


def test_page_that_was_fetched_first_had_never_been_in() -> None:
    steps = [step("fetched", 8, promoted=True, level=0, tier_before="L1")]
    assert [s.presence for s in lives.build_spans(3, steps, mapped=True)] == [
        "out",
        "fetched",
    ]


def test_life_has_its_making_its_leaving_and_its_coming_back(refund: Thread) -> None:
    view = page_views.get_page(refund, PROMISED, seq=refund.head_seq)
    kinds = [each.kind for each in view.life.steps]
    assert kinds[0] == "made"
    assert kinds.index("left") < kinds.index("fetched")
    made, left = view.life.steps[0], view.life.steps[kinds.index("left")]
    assert (made.turn, made.thread) == (1, refund.id)
    assert made.seq < left.seq
    assert left.turn > 1
    assert [span.presence for span in view.life.spans] == ["in", "out", "fetched"]
    assert not view.life.cut


def test_page_life_names_the_newcomer_that_the_page_left_for(refund: Thread) -> None:
    view = page_views.get_page(refund, PROMISED, seq=refund.head_seq)
    parts = get_segments(refund)
    (left,) = (each for each in view.life.steps if each.kind == "left")
    found = newcomers.get_newcomers(parts, view.life.steps)
    newcomer = found[left.thread, left.seq]
    assert newcomer.page_id.startswith("slot-")
    assert newcomer.seq > left.seq
    entry = states.load_state(refund).paging.frames.get(newcomer.page_id)
    assert entry is None or entry.entry.full.cost == newcomer.tokens


def test_fork_tells_the_life_that_its_page_inherits(
    agent: Agent, refund: Thread
) -> None:
    operator_threads.fork(refund, actor="operator:x", name="alt", seq=refund.head_seq)
    fork = factories.get_thread(agent, "alt")
    here = page_views.get_page(refund, PROMISED, seq=refund.head_seq)
    there = page_views.get_page(fork, PROMISED, seq=fork.head_seq)
    assert [(s.kind, s.clock, s.thread) for s in there.life.steps] == [
        (s.kind, s.clock, s.thread) for s in here.life.steps
    ]


def test_axis_names_the_first_turn_and_the_last(refund: Thread) -> None:
    ticks = lives.get_ticks(get_segments(refund), refund.turn_count)
    assert [n for n, _ in ticks][:1] == [1]
    assert ticks[-1][0] == refund.turn_count
    clocks = [clock for _, clock in ticks]
    assert clocks == sorted(clocks)
    assert lives.get_ticks(get_segments(refund), 1)[0][0] == 1


@pytest.mark.parametrize("count", [1, 6])
def test_lives_cost_the_same_for_one_page_or_many(
    refund: Thread, django_assert_num_queries: Any, count: int
) -> None:
    state = states.load_state(refund)
    entries = {
        name: (state.paging.frames.get(name) or state.paging.hot[name]).entry
        for name in [f"slot-{n}" for n in range(count)]
    }
    with django_assert_num_queries(3):
        found = lives.get_lives(get_segments(refund), entries)
    steps = [each for life in found.values() for each in life.steps]
    with django_assert_num_queries(2 if any(s.kind == "left" for s in steps) else 0):
        newcomers.get_newcomers(get_segments(refund), steps)
