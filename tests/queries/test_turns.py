from __future__ import annotations

import pytest

from memoryhub.errors import BadCursorError, NotFoundError
from memoryhub.models.threads import Thread
from memoryhub.queries import turns
from memoryhub.services import operator_pages, operator_threads
from memoryhub.services.api_keys import Agent
from tests import factories
from tests.inspector.paged import make_paged

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_every_turn_is_listed_once_newest_first(paged: Thread) -> None:
    after, found = None, list[turns.TurnLine]()
    while True:
        batch = turns.list_turns(paged, after=after, limit=3)
        found += batch.items
        after = batch.next
        if after is None:
            break
    assert [line.n for line in found] == [7, 6, 5, 4, 3, 2, 1]
    assert all(line.packed is not None for line in found)
    with pytest.raises(BadCursorError):
        turns.list_turns(paged, after="forged")


def test_what_turns_moved_adds_up(paged: Thread) -> None:
    """Over batches of any size: the first of one goes on where the other ended."""
    whole = turns.list_turns(paged, limit=50).items
    after, parts = None, list[turns.TurnLine]()
    for _ in range(4):
        batch = turns.list_turns(paged, after=after, limit=2)
        parts += batch.items
        after = batch.next
    assert tuple(parts) == whole
    assert sum(line.moved.get("faults", 0) for line in whole) == paged.fault_count


def test_a_context_names_each_text_in_its_order(paged: Thread) -> None:
    shown = turns.get_context(paged, 7)
    assert shown is not None
    assert shown.verified
    assert [used.place for used in shown.used] == list(range(1, len(shown.used) + 1))
    assert shown.used[0].page_id == "policy"
    assert sum(part.tokens for part in shown.parts) <= shown.event.tokens
    assert sum(part.refs for part in shown.parts) == len(shown.used)


def test_an_erased_text_leaves_a_gap_in_the_list(paged: Thread) -> None:
    operator_pages.delete(paged, "policy", actor="operator:x")
    shown = turns.get_context(paged, 7)
    assert shown is not None
    assert (shown.request, shown.verified) == (None, False)
    assert shown.missing == ("policy",)
    assert (shown.used[0].page_id, shown.used[0].tokens) == ("", None)
    assert all(used.page_id for used in shown.used[1:])


def test_a_fork_shows_the_turns_it_inherits(agent: Agent, paged: Thread) -> None:
    operator_threads.fork(paged, actor="operator:x", name="alt", seq=paged.head_seq)
    fork = factories.get_thread(agent, "alt")
    assert turns.list_turns(fork).items == ()
    shown = turns.get_context(fork, 7)
    assert shown is not None
    assert shown.verified
    assert shown.recorded.home.id == paged.id
    with pytest.raises(NotFoundError):
        turns.get_context(fork, 8)


def test_the_number_of_statements_is_constant(
    agent: Agent, paged: Thread, django_assert_num_queries: object
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        with django_assert_num_queries(2):  # type: ignore[operator]  # a fixture
            turns.list_turns(thread)
        turns.get_context(thread, 7)
        with django_assert_num_queries(4):  # type: ignore[operator]  # a fixture
            turns.get_context(thread, 7)
