from __future__ import annotations

import pytest

from memoryhub.errors import PageErasedError, PageUnknownError
from memoryhub.kernel.paging.page_commands import CreatePages
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.terms import NumberSpan, SearchTerm, WordValue
from memoryhub.queries.paging import page_views
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.inspector.paged import do, list_evicted_pages, make_paged, new_page

pytestmark = pytest.mark.django_db
ACTOR = "operator:x"


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_levels_stand_side_by_side(agent: Agent, paged: Thread) -> None:
    away = list_evicted_pages(agent, "paged")[-1]
    command = operator_pages.build_command(paged, "map", away, level=2)
    operator_pages.perform_act(paged, command, actor=ACTOR)
    thread = factories.get_thread(agent, "paged")
    view = page_views.get_page(thread, away, seq=thread.head_seq)
    assert view.levels[0].level == 0
    assert len(view.levels) > 1
    tokens = [level.tokens for level in view.levels]
    assert tokens == sorted(tokens, reverse=True)
    for level in view.levels:
        assert level.saved == tokens[0] - level.tokens
        assert level.content
    assert view.levels[1].producer == "extract/1"
    # At the earlier seq only FULL exists.
    before = page_views.get_page(thread, away, seq=paged.head_seq)
    assert len(before.levels) == 1


def test_page_view_tells_cause_and_score_of_the_eviction(
    agent: Agent, paged: Thread
) -> None:
    view = page_views.get_page(
        paged, list_evicted_pages(agent, "paged")[0], seq=paged.head_seq
    )
    assert view.why is None
    assert view.evicted is not None
    assert view.evicted.body["cause"] == "pressure"
    assert 0 <= view.evicted.body["score"] <= 1


def test_page_says_what_it_was_made_of(agent: Agent, paged: Thread) -> None:
    made = new_page("sum", "All of it.", type="summary", provenance=("slot-0",))
    do(agent, "paged", CreatePages(pages=(made,)))
    thread = factories.get_thread(agent, "paged")
    view = page_views.get_page(thread, "sum", seq=thread.head_seq)
    assert view.provenance == ("slot-0",)
    with pytest.raises(PageUnknownError):
        page_views.get_page(thread, "sum", seq=paged.head_seq)


def test_deleted_page_is_gone_with_its_text(agent: Agent, paged: Thread) -> None:
    operator_pages.delete_page(paged, "policy", actor=ACTOR)
    thread = factories.get_thread(agent, "paged")
    with pytest.raises(PageErasedError):
        page_views.get_page(thread, "policy", seq=thread.head_seq)
    view = page_views.get_page(thread, "policy", seq=paged.head_seq)
    assert view.erased


def test_page_search_equals_a_plain_scan(paged: Thread) -> None:
    everything = page_views.list_pages(paged, seq=paged.head_seq, limit=200).items
    assert len(everything) == paged.slot_count + 1
    for term, holds in (
        (SearchTerm(key="tokens", values=(NumberSpan(low=100, low_open=True),)),
         lambda line: line.entry.full.tokens > 100),
        (SearchTerm(key="tier", values=(WordValue(text="L0"), WordValue(text="L1"))),
         lambda line: line.tier in ("L0", "L1")),
        (SearchTerm(key="type", values=(WordValue(text="artifact"),), negated=True),
         lambda line: line.entry.type != "artifact"),
        (SearchTerm(key="page", values=(WordValue(text="slot-1", prefix=True),)),
         lambda line: line.entry.page_id.startswith("slot-1")),
        (SearchTerm(key="level", values=(NumberSpan(low=0, high=0),)),
         lambda line: line.level == 0),
        (SearchTerm(key="pinned", values=(WordValue(text="yes"),)),
         lambda line: line.pinned is not None),
    ):  # fmt: skip
        found = page_views.list_pages(
            paged, seq=paged.head_seq, terms=(term,), limit=200
        )
        assert found.items == tuple(line for line in everything if holds(line))
        assert found.items


def test_page_list_batches_join_without_a_gap(paged: Thread) -> None:
    after, ids = None, list[str]()
    while True:
        batch = page_views.list_pages(paged, seq=paged.head_seq, after=after, limit=4)
        ids += [line.entry.page_id for line in batch.items]
        after = batch.next
        if after is None:
            break
    assert len(ids) == len(set(ids)) == paged.slot_count + 1


def test_fork_shows_what_it_inherits(agent: Agent, paged: Thread) -> None:
    operator_threads.fork(paged, actor=ACTOR, name="alt", seq=paged.head_seq)
    fork = factories.get_thread(agent, "alt")
    view = page_views.get_page(fork, "policy", seq=fork.head_seq)
    assert view.levels[0].content == "Refunds within 30 days. " * 4
    assert view.levels[0].seq is None
    found = page_views.list_pages(fork, seq=fork.head_seq, limit=200).items
    assert len(found) == paged.slot_count + 1


def test_page_view_costs_a_constant_number_of_statements(
    agent: Agent, paged: Thread, django_assert_max_num_queries: object
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        for page_id in ("policy", "slot-0"):
            with django_assert_max_num_queries(12):  # type: ignore[operator]  # a fixture
                page_views.get_page(thread, page_id, seq=thread.head_seq)
        with django_assert_max_num_queries(6):  # type: ignore[operator]  # a fixture
            page_views.list_pages(thread, seq=thread.head_seq)
