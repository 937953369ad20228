from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.paging.page_commands import CreatePages, DeletePage
from memoryhub.models.pages import PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import page_uses, pages
from memoryhub.queries.paging.page_uses import PageUses
from memoryhub.queries.replay import states
from memoryhub.queries.turns import contexts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.inspector.paged import do, make_paged, new_page

pytestmark = pytest.mark.django_db


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def uses_of(thread: Thread, page_id: str, *, seq: int | None = None) -> PageUses:
    state = states.load_state(thread, seq)
    levels = PageLevel.objects.filter(thread=thread, page_id=page_id)
    return page_uses.get_uses(state, pages.find_entry(state, page_id), levels)


def make_paged_thread(
    agent: Agent, page_id: str, *sources: str, **fields: Any
) -> Thread:
    page = new_page(page_id, "All of it.", provenance=sources, **fields)
    replace = fields.get("type") == "summary"
    do(agent, "paged", CreatePages(pages=(page,), replace=replace))
    return factories.get_thread(agent, "paged")


def test_derived_pages_are_listed_newest_first(agent: Agent, paged: Thread) -> None:
    make_paged_thread(agent, "first", "slot-0", "slot-1")
    thread = make_paged_thread(agent, "second", "slot-1")
    uses = uses_of(thread, "slot-1")
    assert [page.page_id for page in uses.derived] == ["second", "first"]
    assert [page.page_id for page in uses_of(thread, "slot-0").derived] == ["first"]
    assert uses_of(thread, "slot-1", seq=paged.head_seq).derived == ()
    assert uses_of(thread, "second").derived == ()


def test_deleted_page_is_no_longer_listed_as_derived(
    agent: Agent, paged: Thread
) -> None:
    before = make_paged_thread(agent, "first", "slot-0")
    do(agent, "paged", DeletePage(page_id="first"))
    thread = factories.get_thread(agent, "paged")
    assert uses_of(thread, "slot-0").derived == ()
    derived = uses_of(thread, "slot-0", seq=before.head_seq).derived
    assert [page.page_id for page in derived] == ["first"]


def test_carrying_turns_match_their_context_records(paged: Thread) -> None:
    """Turns are compared with each request assembled again: a page is in it, or not."""
    held: dict[str, list[int]] = {}
    for turn in range(7, 0, -1):
        found = contexts.get_recorded_turn(paged, turn)
        places = {
            ref.get_location(paged.id)[:2]
            for section in found.record.sections
            for ref in section.refs
        }
        for page in pages.list_pages(paged, states.load_state(paged), limit=200).items:
            if page.entry.full.location[:2] in places:
                held.setdefault(page.entry.page_id, []).append(turn)
    assert len(held) > 10
    for page_id, turns in held.items():
        carried = uses_of(paged, page_id).carried
        assert [each.turn for each in carried] == turns
    assert {each.section for each in uses_of(paged, "policy").carried} == {"history"}


def test_page_uses_look_at_the_newest_turns_only(
    paged: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [each.turn for each in uses_of(paged, "policy").carried] == [
        *range(7, 0, -1)
    ]
    monkeypatch.setattr(page_uses, "TURNS", 3)
    uses = uses_of(paged, "policy")
    assert [each.turn for each in uses.carried] == [7, 6, 5]
    assert uses.first_turn == 5


def test_fork_lists_its_own_page_uses(agent: Agent, paged: Thread) -> None:
    operator_threads.fork(paged, actor="operator:x", name="alt", seq=paged.head_seq)
    summary = new_page("sum", "All of it.", type="summary", provenance=("slot-0",))
    do(agent, "alt", CreatePages(pages=(summary,)))
    fork = factories.get_thread(agent, "alt")
    uses = uses_of(fork, "slot-0")
    assert [page.page_id for page in uses.derived] == ["sum"]
    assert uses.carried == ()


def test_page_uses_cost_a_constant_number_of_statements(
    agent: Agent, paged: Thread, django_assert_num_queries: Any
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        page = new_page("sum", "All of it.", type="summary", provenance=("slot-0",))
        do(agent, thread.name, CreatePages(pages=(page,)))
        state = states.load_state(factories.get_thread(agent, thread.name))
        entry = pages.find_entry(state, "slot-0")
        with django_assert_num_queries(4):
            assert page_uses.get_uses(state, entry, ()).derived
