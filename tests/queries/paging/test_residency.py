from __future__ import annotations

import pytest

from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.state import policies
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import residency
from memoryhub.queries.replay import replay
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.paged import build_message, do, make_paged

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_cells_are_the_frames_in_their_order(paged: Thread) -> None:
    found = residency.get_residency(paged, paged.head_seq)
    state = replay.load_state_at(paged, paged.head_seq).state
    frames = state.paging.list_in_context_order()
    assert [cell.page_id for cell in found.cells] == [f.page_id for f in frames]
    assert sum(cell.tokens for cell in found.cells) == found.budget.used
    assert found.budget.used == state.paging.used == paged.resident_tokens
    assert found.warm
    assert (found.hits, found.misses) == (paged.tlb_hits, paged.tlb_misses)


def test_each_term_adds_up_to_the_score_that_evicts(paged: Thread) -> None:
    state = replay.load_state_at(paged, paged.head_seq).state
    scores = policies.score_frames(state.paging, turn=state.turn_count)
    for cell in residency.get_residency(paged, paged.head_seq).cells:
        assert cell.why.score == scores[cell.page_id]
        added = sum(term.adds for term in cell.why.terms)
        assert added == pytest.approx(cell.why.score)


def test_every_page_says_why_it_stays(paged: Thread) -> None:
    cells = {
        cell.page_id: cell
        for cell in residency.get_residency(paged, paged.head_seq).cells
    }
    assert cells["policy"].why.rule == "explicit"
    (back,) = (cell for cell in cells.values() if cell.recalled)
    assert back.cause == "page.faulted"
    assert back.why.rule or back.why.protected_until is not None
    assert cells[f"slot-{paged.slot_count - 1}"].why.rule == "exchange"
    ranks = sorted(c.why.rank for c in cells.values() if c.why.rank is not None)
    assert ranks == list(range(1, len(ranks) + 1))
    for cell in cells.values():
        assert not cell.why.rule or cell.why.rank is None


def test_residency_rank_predicts_what_the_next_run_evicts(
    agent: Agent, paged: Thread
) -> None:
    before = residency.get_residency(paged, paged.head_seq)
    loose = sorted(
        (cell for cell in before.cells if cell.why.rank is not None),
        key=lambda cell: cell.why.rank or 0,
    )
    assert loose
    order = [(c.why.protected_until is not None, c.why.score) for c in loose]
    assert order == sorted(order)
    do(agent, paged.name, AppendSlots(slots=(build_message("tool", "word " * 1_600),)))
    thread = factories.get_thread(agent, paged.name)
    after = residency.get_residency(thread, thread.head_seq)
    kept = {cell.page_id: cell.level for cell in after.cells}
    left = [cell for cell in loose if kept.get(cell.page_id) != cell.level]
    assert left
    assert left == loose[: len(left)]


def test_residency_is_empty_as_of_the_first_event(paged: Thread) -> None:
    found = residency.get_residency(paged, 1)
    assert (found.cells, found.warm, found.budget.used) == ((), (), 0)
    assert found.thrash_index == 0


def test_residency_costs_a_constant_number_of_statements(
    agent: Agent, paged: Thread, django_assert_num_queries: object
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        with django_assert_num_queries(4):  # type: ignore[operator]  # a fixture
            residency.get_residency(thread, thread.head_seq)
