from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.paging.page_commands import ReferencePages
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import curves
from memoryhub.queries.paging.curves import PagingCurves
from memoryhub.queries.replay import replay
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import do, make_paged, state_now
from tests.services.acts import amend, fork

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def get(thread: Thread, seq: int | None = None) -> PagingCurves:
    state = replay.load_state_at(thread, seq or thread.head_seq).state
    return curves.get_curves(thread, state)


def meets_recorded_misses(found: PagingCurves) -> bool:
    (own,) = [p for p in found.points if p.size == found.tlb_entries]
    return own.least <= own.lru == found.misses


def test_curves_meet_what_the_thread_recorded(paged: Thread) -> None:
    found = get(paged)
    assert (found.first_seq, found.seq) == (1, paged.head_seq)
    assert (found.hits, found.misses) == (paged.tlb_hits, paged.tlb_misses)
    assert found.evicted == paged.eviction_count
    assert meets_recorded_misses(found)
    assert {run.budget_tokens for run in found.runs} >= {found.budget_tokens}


@pytest.mark.parametrize("events", [1, 7, 30])
def test_curves_of_a_long_thread_cover_its_last_events(
    paged: Thread, monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    monkeypatch.setattr(curves, "MAX_EVENTS", events)
    found = get(paged)
    assert found.first_seq == paged.head_seq - events + 1
    assert meets_recorded_misses(found)


def test_curves_of_a_fork_begin_with_what_it_inherits(
    agent: Agent, paged: Thread
) -> None:
    child = fork(agent, "paged", "child", **paged_config(paged))
    for page_id in ("policy", "slot-0", "policy"):
        do(agent, "child", ReferencePages(page_ids=(page_id,)))
    child.refresh_from_db()
    found = get(child)
    # The fork inherits all entries; at the least size the pages miss in turn.
    assert (found.first_seq, found.hits, found.misses) == (1, 3, 0)
    assert found.points[0].lru == 3
    assert meets_recorded_misses(found)


def test_curves_begin_anew_with_another_size(agent: Agent, paged: Thread) -> None:
    amend(agent, "paged", config={**paged_config(paged), "tlb_entries": 2})
    for page_id in ("policy", "slot-0", "slot-1", "policy"):
        do(agent, "paged", ReferencePages(page_ids=(page_id,)))
    paged.refresh_from_db()
    found = get(paged)
    assert found.first_seq == paged.head_seq - 3
    assert found.lookups == 4
    assert meets_recorded_misses(found)


def test_curves_cost_a_constant_number_of_statements(
    agent: Agent, paged: Thread, django_assert_max_num_queries: object
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        with django_assert_max_num_queries(8):  # type: ignore[operator]  # a fixture
            get(thread)


def paged_config(thread: Thread) -> dict[str, Any]:
    config = state_now(thread).config
    return config.model_dump(exclude_none=True)
