from __future__ import annotations

from typing import Any

import pytest

from memoryhub.journal.log import thread_terms
from memoryhub.kernel.paging.page_commands import EvictPage, FaultPage
from memoryhub.models.threads import Thread
from memoryhub.queries.search import indexes
from memoryhub.queries.turns import (
    exchanges,
    matches,
    missing,
    turn_faults,
    turns,
    verdicts,
)
from memoryhub.queries.turns.matches import QuestionMatches
from memoryhub.queries.turns.missing import MissingPage, MissingPages
from memoryhub.queries.turns.turns import ShownRequest
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from memoryhub.services.threads import operator_threads
from memoryhub.services.turns import turns as begin
from memoryhub.workers.search import terms
from tests.cast import factories
from tests.inspector.denied import (
    DENIAL,
    DENIED,
    PROMISE,
    PROMISED,
    QUESTION,
    make_denial,
)
from tests.inspector.paged import do, list_evicted_pages, make_paged

pytestmark = pytest.mark.django_db


@pytest.fixture
def refund(agent: Agent) -> Thread:
    return make_denial(agent)


def shown_at(thread: Thread, n: int) -> ShownRequest:
    shown = turns.get_context(thread, n)
    assert shown is not None
    return shown


def missing_at(thread: Thread, n: int) -> MissingPages:
    lines = turns.list_around(thread, n, before=missing.TURNS, after=0)
    return missing.get_missing(
        thread,
        shown_at(thread, n),
        since=lines[0],
        matches=matches_at(thread, n),
    )


def matches_at(thread: Thread, n: int) -> QuestionMatches:
    shown = shown_at(thread, n)
    exchange = exchanges.get_exchange(thread, shown.state, n)
    return matches.get_matches(thread, shown, exchange)


def page_at(thread: Thread, n: int, page_id: str) -> MissingPage:
    page = missing_at(thread, n).find(page_id)
    assert page is not None
    return page


# Questions


def test_turn_has_its_question_and_its_answer(refund: Thread) -> None:
    state = shown_at(refund, DENIED).state
    found = exchanges.get_exchange(refund, state, DENIED)
    assert found.first == DENIED
    assert found.question is not None
    assert found.question.content["content"] == QUESTION
    assert [slot.content["content"] for slot in found.answers] == [DENIAL]


def test_second_call_knows_the_turn_its_exchange_began_at(
    agent: Agent, refund: Thread
) -> None:
    factories.run(begin.begin_turn(agent=agent, thread="refund", new=begin.NewTurn()))
    refund = factories.get_thread(agent, "refund")
    n = refund.turn_count
    found = exchanges.get_exchange(refund, shown_at(refund, n).state, n)
    assert found.first == n - 1
    assert found.answers == ()


def test_each_turn_of_a_list_has_the_question_that_it_begins_with(
    refund: Thread, django_assert_num_queries: Any
) -> None:
    lines = turns.list_turns(refund).items
    with django_assert_num_queries(3):
        found = exchanges.list_questions(refund, lines)
    assert {*found} == {line.n for line in lines}
    assert found[DENIED]["content"] == QUESTION
    few = exchanges.list_questions(refund, [line for line in lines if line.n == DENIED])
    assert few == {DENIED: found[DENIED]}


# Missing pages


def test_page_that_left_is_told_with_its_event_and_what_it_made_room_for(
    refund: Thread,
) -> None:
    page = page_at(refund, DENIED, PROMISED)
    assert page.used is None
    assert page.left is not None
    assert page.left.body["score"] is not None
    assert page.newcomer is not None
    assert page.newcomer.seq > page.left.seq
    assert page.text is not None
    assert "promise" in page.text.content["content"]
    assert page.wanted is not None
    assert (page.wanted.kind, page.wanted.turn) == ("fetched", DENIED + 1)
    assert page.missed


def test_missing_pages_are_told_with_their_manifest_rows(refund: Thread) -> None:
    record = shown_at(refund, DENIED).recorded.record
    assert record.manifest is not None
    rows = [row.page_id for row in record.manifest.rows]
    offers = {p.page_id: p.offer for p in missing_at(refund, DENIED).pages if p.offer}
    assert {*offers} == {*rows}
    for n, page_id in enumerate(rows, start=1):
        assert (offers[page_id].row, offers[page_id].rows) == (n, len(rows))
        hint = offers[page_id].hint
        assert hint is not None
        assert hint.startswith("[")


def test_missing_pages_are_ordered_by_match_then_urgency(
    refund: Thread,
) -> None:
    found = missing_at(refund, DENIED)
    assert found.pages[0].page_id == PROMISED
    ranks = [page.match.rank for page in found.pages if page.match]
    assert ranks == sorted(ranks)
    others = found.pages[len(ranks) :]
    assert not any(page.match for page in others)
    assert [page.urgency for page in others] == sorted(p.urgency for p in others)
    assert not {page.page_id for page in found.pages} & found.whole


# Matches of the question


def test_best_matches_are_of_before_and_not_the_question_itself(
    refund: Thread,
) -> None:
    shown, found = shown_at(refund, DENIED), matches_at(refund, DENIED)
    best = found.items[0]
    assert (best.page_id, best.standing) == (PROMISED, "out")
    assert best.excerpt.text == PROMISE
    pages = [each.page_id for each in found.items]
    exchange = exchanges.get_exchange(refund, shown.state, DENIED)
    assert exchange.question is not None
    assert f"slot-{exchange.question.index}" not in pages
    assert all(
        int(page.removeprefix("slot-")) < shown.state.slot_count for page in pages
    )
    assert [each.rank for each in found.items] == [*range(1, len(pages) + 1)]
    assert len(pages) <= found.total
    whole = missing_at(refund, DENIED).whole
    assert {each.page_id for each in found.list_with_standing("in")} == {*pages} & whole


def test_words_of_a_question_are_no_filters() -> None:
    words = matches.build_query('-refund "of it" role:tool refund' + " z" * 10_000)
    asked = [word.whole for word in words.words]
    assert asked == ["refund", "of", "it", "role:tool", "z"]
    assert not words.filters.without
    assert not words.phrases
    assert not words.filters.roles
    assert len(matches.build_query(" ".join(map(str, range(100)))).words) == 64


def test_turn_without_a_question_has_no_matches(agent: Agent) -> None:
    thread = make_paged(agent)
    shown = shown_at(thread, 6)
    silent = exchanges.Exchange(first=6, question=None, answers=())
    assert matches.get_matches(thread, shown, silent) == QuestionMatches(
        has_question=False
    )


def test_no_page_is_missing_that_stands_there_in_full(refund: Thread) -> None:
    found = missing_at(refund, DENIED + 1)
    assert found.find(PROMISED) is not None
    after = missing_at(refund, 1)
    assert (after.pages, after.more) == ((), 0)


def test_deleted_page_is_told_without_its_text(agent: Agent) -> None:
    thread = make_paged(agent)
    do(agent, "paged", EvictPage(page_id="slot-2"))
    before = missing_at(thread, 7)
    assert before.pages
    assert all(page.entry is not None for page in before.pages)


def test_fork_tells_what_was_missing_in_a_turn_that_it_inherits(
    agent: Agent, refund: Thread
) -> None:
    operator_threads.fork(refund, actor="operator:x", name="alt", seq=refund.head_seq)
    fork = factories.get_thread(agent, "alt")
    here, there = missing_at(refund, DENIED), missing_at(fork, DENIED)
    assert [p.page_id for p in there.pages] == [p.page_id for p in here.pages]
    assert there.pages[0].left == here.pages[0].left


def test_missing_pages_cost_the_same_at_any_thread_length(
    agent: Agent, django_assert_max_num_queries: Any
) -> None:
    for name, rounds in (("short", 6), ("long", 14)):
        thread = make_paged(agent, name, rounds=rounds)
        lines = turns.list_around(thread, 6, before=missing.TURNS, after=4)
        shown, best = shown_at(thread, 6), matches_at(thread, 6)
        with django_assert_max_num_queries(8):
            missing.get_missing(thread, shown, since=lines[0], matches=best)
        exchange = exchanges.get_exchange(thread, shown.state, 6)
        with django_assert_max_num_queries(6):
            matches.get_matches(thread, shown, exchange)


def test_many_events_that_are_not_indexed_are_searched_in_part(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = make_paged(agent)
    whole = matches_at(thread, 6)
    assert whole.complete
    monkeypatch.setattr(indexes, "MOST", 10)
    monkeypatch.setattr(indexes, "FEW", 2)
    thread_terms.indexes.clear()
    part = matches_at(thread, 6)
    assert not part.complete
    assert part.total < whole.total
    # What the worker of another process has stored since is searched at once.
    ((key, held),) = thread_terms.indexes.list_items()
    assert terms.write_segment(thread)
    thread_terms.indexes.put(key, held, weight=held.size)
    assert matches_at(thread, 6) == whole


# Verdicts on real turns


def verdict_at(thread: Thread, n: int) -> verdicts.TurnVerdict:
    exchange = exchanges.get_exchange(thread, shown_at(thread, n).state, n)
    faults = turn_faults.get_faults(thread, n, first=exchange.first)
    found = faults.faults if faults else ()
    return verdicts.judge_turn(missing_at(thread, n), matches_at(thread, n), found)


def test_denial_is_explained_by_the_promise_that_was_not_in(
    refund: Thread,
) -> None:
    verdict = verdict_at(refund, DENIED)
    assert verdict.kind == "out"
    assert verdict.first is not None
    assert verdict.first.page_id == PROMISED
    assert verdict_at(refund, 1).kind == "unmatched"


def test_refusal_is_explained_by_what_would_have_fitted(agent: Agent) -> None:
    thread = make_denial(agent)
    assert verdict_at(thread, thread.turn_count).kind != "refused"
    away = list_evicted_pages(agent, "refund")[:4]
    for page_id in away:
        do(agent, "refund", FaultPage(page_id=page_id, level=0))
    thread = factories.get_thread(agent, "refund")
    verdict = verdict_at(thread, thread.turn_count)
    assert verdict.kind == "refused"
    assert verdict.fault is not None
    assert verdict.fault.body["page_id"] in away
    fitting = turn_faults.get_room_when_refused(thread, verdict.fault)
    if verdict.fault.body["refusal"] == "fault_budget":
        assert fitting is None
    else:
        assert fitting is not None
        assert fitting.tokens > fitting.room


def test_refused_fetch_is_told_the_best_level_that_would_have_fitted(
    agent: Agent,
) -> None:
    thread = make_paged(agent)
    found = turn_faults.get_faults(thread, 6)
    assert found is not None
    unknown = found.faults[1]
    assert turn_faults.get_room_when_refused(thread, unknown) is None


def test_erased_text_is_no_excerpt(agent: Agent) -> None:
    thread = make_paged(agent)
    operator_pages.delete_page(thread, "policy", actor="operator:x")
    thread = factories.get_thread(agent, "paged")
    assert missing_at(thread, 7).find("policy") is None
