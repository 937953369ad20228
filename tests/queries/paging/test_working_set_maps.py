"""Maps: what they show of a working set is what the fold has."""

from __future__ import annotations

import pytest

from memoryhub.journal.log import log
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.paging.page_commands import DeletePage, EvictPage
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import traces, working_set_maps
from memoryhub.queries.paging.eviction_runs import LEAVING
from memoryhub.queries.paging.working_set_maps import (
    compute_tick_step,
    get_map,
    join_stretches,
)
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.inspector.observed import make_observed
from tests.inspector.paged import do, list_evicted_pages, make_paged
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh() -> None:
    traces.traces.clear()
    working_set_maps.sampled.clear()
    working_set_maps.sampled_moves.clear()


def folded(thread: Thread) -> dict[int, int]:
    return {state.seq: state.paging.used for state in log.iter_states(thread)}


def test_each_event_shows_what_the_fold_holds(agent: Agent) -> None:
    thread = make_paged(agent)
    assert dict(get_map(thread).points) == folded(thread)


def test_working_set_map_continues_from_its_end(agent: Agent) -> None:
    thread = make_paged(agent)
    get_map(thread)
    do(agent, "paged", EvictPage(page_id=list_evicted_pages(agent, "paged")[0]))
    do(agent, "paged", DeletePage(page_id="policy"))
    factories.append(agent, "paged", "And then?")
    thread = factories.get_thread(agent, "paged")
    found = get_map(thread)
    assert dict(found.points) == folded(thread)
    assert found.points[-1] == (thread.head_seq, thread.resident_tokens)


def test_long_stretches_end_with_what_is_held_then(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "BINS", 8)
    thread = make_paged(agent)
    found, known = get_map(thread), folded(thread)
    assert len(found.points) <= 8
    assert all(known[seq] == tokens for seq, tokens in found.points)
    assert found.points[-1][0] == thread.head_seq


def test_fork_begins_with_what_it_inherits(agent: Agent) -> None:
    parent = make_paged(agent)
    operator_threads.fork(
        parent, actor="operator:x", name="paged.alt", seq=parent.head_seq
    )
    factories.append(agent, "paged.alt", "On its own.")
    fork = factories.get_thread(agent, "paged.alt")
    assert dict(get_map(fork).points) == folded(fork)


def test_working_set_map_marks_events_at_their_seqs(agent: Agent) -> None:
    thread = make_paged(agent)
    do(agent, "paged", TakeCheckpoint(name="here"))
    thread = factories.get_thread(agent, "paged")
    found = get_map(thread)
    kinds = dict(thread.events.values_list("seq", "type"))
    leaves = {seq for first, last in found.leaving for seq in range(first, last + 1)}
    assert leaves == {s for s, k in kinds.items() if k in LEAVING}
    assert [kinds[first] for first, _ in found.fetched] == ["page.faulted"]
    assert [kinds[first] for first, _ in found.refused] == ["fault.refused"]
    assert [kinds[seq] for seq in found.checkpoints] == ["checkpoint.taken"]
    assert [n for n, _ in found.turns] == [*range(1, 8)]


def test_map_threshold_leaves_room_for_the_log(agent: Agent) -> None:
    thread = make_observed(agent)
    settings = state_of(thread).paging.settings
    assert settings.log_tokens
    assert get_map(thread).high == int(settings.high)


def test_long_thread_is_drawn_from_its_snapshots(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_paged(agent)
    for _ in range(11):
        factories.append(agent, "paged", *("more " * 30 for _ in range(100)))
    thread = factories.get_thread(agent, "paged")
    monkeypatch.setattr(working_set_maps, "TRACED", 100)
    found, known = get_map(thread), folded(thread)
    assert found.sampled
    assert len(found.points) >= 2
    assert all(known[seq] == tokens for seq, tokens in found.points)
    assert found.points[-1] == (thread.head_seq, thread.resident_tokens)
    assert found.leaving


@pytest.mark.parametrize("size", [3, 400])
def test_map_costs_the_same_however_long_the_thread(
    agent: Agent,
    size: int,
    django_assert_max_num_queries: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    factories.append(agent, "t-1", *("more" for _ in range(min(size, 200))))
    thread = factories.get_thread(agent)
    with django_assert_max_num_queries(6):  # type: ignore[operator]  # a fixture
        get_map(thread)
    # Nothing is asked again of a long thread that has not moved.
    monkeypatch.setattr(working_set_maps, "TRACED", size // 2)
    found = get_map(thread)
    with django_assert_max_num_queries(4):  # type: ignore[operator]  # a fixture
        assert get_map(thread) == found


def test_stretches_without_a_gap_are_one() -> None:
    assert join_stretches([(1, 2), (3, 4), (6, 6)]) == ((1, 4), (6, 6))


def test_marks_are_few_and_round() -> None:
    assert [compute_tick_step(count) for count in (0, 40, 41, 100, 1_000_000)] == [
        *(1, 1, 2, 5, 50_000)
    ]
