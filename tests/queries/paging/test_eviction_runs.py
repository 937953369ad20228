"""Eviction runs: which pages left for what came, and why those."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memoryhub.kernel.paging.page_commands import EvictPage
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import eviction_runs, residency
from memoryhub.queries.paging.eviction_runs import LEAVING
from memoryhub.queries.replay import replay
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import do, list_evicted_pages, make_paged

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def leaving(paged: Thread) -> list[int]:
    rows = Event.objects.filter(thread=paged, type__in=LEAVING)
    return [*rows.order_by("seq").values_list("seq", flat=True)]


def test_eviction_run_is_found_from_its_events_and_its_newcomer(
    paged: Thread,
) -> None:
    for seq in leaving(paged):
        run = eviction_runs.get_run(paged, seq)
        assert run is not None
        assert run.first <= seq <= run.last
        assert {each.seq for each in run.steps} == {*range(run.first, run.last + 1)}
        assert run.newcomer is not None
        assert run.newcomer.seq == run.last + 1
        assert eviction_runs.get_run(paged, run.last + 1) == run


def test_eviction_run_frees_the_tokens_that_the_working_set_loses(
    paged: Thread,
) -> None:
    run = eviction_runs.get_run(paged, leaving(paged)[-1])
    assert run is not None
    before = replay.load_state_at(paged, run.first - 1).state.paging
    after = replay.load_state_at(paged, run.last).state.paging
    assert run.freed == before.used - after.used > 0
    gone_by_now = {each.page_id for each in run.steps if each.level is None}
    assert gone_by_now == {*before.frames} - {*after.frames}


def test_eviction_run_is_none_before_the_first_eviction(paged: Thread) -> None:
    assert eviction_runs.get_run(paged, leaving(paged)[0] - 1) is None


def test_eviction_score_is_of_the_state_before_the_run(paged: Thread) -> None:
    explained = 0
    for seq in leaving(paged):
        run = eviction_runs.get_run(paged, seq)
        assert run is not None
        before = replay.load_state_at(paged, run.first - 1).state
        step = next(each for each in run.steps if each.seq == seq)
        reason = eviction_runs.explain_step(before, step, run)
        if reason.why is None:
            continue
        explained += 1
        adds = sum(part.adds for part in reason.why.terms)
        assert adds == pytest.approx(step.score)
        if reason.next_score is not None:
            assert reason.next_score >= reason.why.score
            assert reason.next_page not in {each.page_id for each in run.steps}
    assert explained


def test_shortened_page_is_not_its_own_runner_up(paged: Thread) -> None:
    run = eviction_runs.get_run(paged, leaving(paged)[0])
    assert run is not None
    step = replace(run.steps[0], level=1)
    run = replace(run, steps=(step,))
    before = replay.load_state_at(paged, run.first - 1).state
    reason = eviction_runs.explain_step(before, step, run)
    assert reason.why
    assert reason.next_page not in (None, step.page_id)


def test_page_evicted_by_command_has_no_score(agent: Agent, paged: Thread) -> None:
    state = replay.load_state_at(paged, paged.head_seq).state
    free = next(
        page_id
        for page_id, why in (
            (frame.page_id, why.rule)
            for frame, why, _ in residency.explain_frames(
                state, state.paging.list_in_context_order()
            )
        )
        if not why
    )
    do(agent, "paged", EvictPage(page_id=free))
    paged.refresh_from_db()
    run = eviction_runs.get_run(paged, paged.head_seq)
    assert run is not None
    assert run.steps[0].page_id == free
    assert {each.score for each in run.steps} == {None}
    assert run.newcomer is None


def test_each_page_says_how_it_last_left(agent: Agent, paged: Thread) -> None:
    away = list_evicted_pages(agent, "paged")
    found = eviction_runs.find_last_steps(paged, away, up_to=paged.head_seq)
    assert found.keys() == {*away}
    assert all(each.level is None for each in found.values())
    first = min(found.values(), key=lambda each: each.seq)
    assert eviction_runs.find_last_steps(paged, away, up_to=first.seq - 1) == {}


def test_run_costs_two_queries(
    paged: Thread, django_assert_max_num_queries: object
) -> None:
    seq = leaving(paged)[-1]
    with django_assert_max_num_queries(2):  # type: ignore[operator]  # a fixture
        eviction_runs.get_run(paged, seq)
