from __future__ import annotations

from itertools import combinations

import pytest

from memoryhub.errors import NotFoundError, NotRecordedError
from memoryhub.kernel.page_commands import BeginTurn
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries import contexts, turn_diffs
from memoryhub.services import turns
from memoryhub.services.api_keys import Agent
from memoryhub.services.turns import NewTurn
from tests import factories
from tests.inspector.paged import do, make_paged, message
from tests.services.acts import fork

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_diff_reasons_complete(paged: Thread) -> None:
    kinds = set()
    for base, turn in combinations(range(1, paged.turn_count + 1), 2):
        found = turn_diffs.get_diff(paged, turn, base=base)
        assert sum(change.delta for change in found.changes) == found.delta
        for change in found.changes:
            kinds.add(change.kind)
            if change.kind == "unchanged" and not change.moved:
                continue
            assert change.reason is not None
            row = Event.objects.get(thread_id=paged.id, seq=change.reason.seq)
            assert row.type == change.reason.type
            assert found.base.seq < row.seq <= found.now.seq
            assert row.page in (change.page_id, None)
    assert {"entered", "left", "unchanged"} <= kinds


def test_a_fault_and_an_eviction_say_whose_they_were(paged: Thread) -> None:
    found = turn_diffs.get_diff(paged, paged.turn_count, base=paged.turn_count - 1)
    reasons = [change.reason for change in found.changes if change.reason]
    faults = [each for each in reasons if each.type == "page.faulted"]
    assert [each.cause for each in faults] == ["fault"]
    assert {each.cause for each in reasons if each.type == "slot.appended"} == {
        "append"
    }
    before, now = (contexts.recorded(paged, paged.turn_count - n) for n in (1, 0))
    assert found.request_delta == now.record.tokens - before.record.tokens


def test_a_fork_is_told_from_its_parents_turns_on(agent: Agent, paged: Thread) -> None:
    fork(agent, "paged", "child", budget_tokens=2_400, reserved_tokens=800)
    asked = message("user", "And in this history?")
    factories.run(turns.begin(agent=agent, thread="child", new=NewTurn(slots=[asked])))
    child = factories.get_thread(agent, "child")
    found = turn_diffs.get_diff(child, child.turn_count, base=2)
    moved = [each for each in found.changes if each.kind != "unchanged"]
    assert all(change.reason for change in moved)
    threads = {change.reason.thread for change in moved if change.reason}
    assert threads == {paged.id, child.id}


def test_a_turn_that_is_not_there_or_not_recorded_has_no_diff(
    agent: Agent, paged: Thread
) -> None:
    for base, turn in ((1, 99), (0, 1), (2, 2), (3, 2)):
        with pytest.raises(NotFoundError):
            turn_diffs.get_diff(paged, turn, base=base)
    do(agent, "paged", BeginTurn())
    thread = factories.get_thread(agent, "paged")
    with pytest.raises(NotRecordedError):
        turn_diffs.get_diff(thread, thread.turn_count, base=1)


def test_the_number_of_statements_is_constant(
    agent: Agent, paged: Thread, django_assert_num_queries: object
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        with django_assert_num_queries(9):  # type: ignore[operator]  # a fixture
            turn_diffs.get_diff(thread, thread.turn_count, base=1)
