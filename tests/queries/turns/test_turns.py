from __future__ import annotations

import json

import pytest

from memoryhub.errors import BadCursorError, NotFoundError
from memoryhub.journal import fold_thread
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import contexts, turn_faults, turns
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from memoryhub.services.threads import operator_threads
from tests.cast import factories
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


def test_listed_figures_are_those_of_the_recorded_request(paged: Thread) -> None:
    names = ("packer", "rules", "budget", "tokens", "bytes", "tokenizer")
    for line in turns.list_turns(paged).items:
        event = contexts.get_recorded_turn(paged, line.n).event
        for name in (*names, "prefix_tokens", "simulated"):
            assert getattr(line.packed, name) == getattr(event, name)
        assert line.pages == sum(len(each.refs) for each in event.sections) > 0
        assert line.recalled == len(event.recall.texts if event.recall else ())


def test_turn_deltas_add_up_over_batches_of_any_size(paged: Thread) -> None:
    """Batches have any size: each goes on where the one before ended."""
    whole = turns.list_turns(paged, limit=50).items
    after, parts = None, list[turns.TurnLine]()
    for _ in range(4):
        batch = turns.list_turns(paged, after=after, limit=2)
        parts += batch.items
        after = batch.next
    assert tuple(parts) == whole
    assert sum(line.moved.get("faults", 0) for line in whole) == paged.fault_count


def test_turns_of_some_numbers_have_the_figures_of_the_whole_list(
    paged: Thread,
) -> None:
    whole = {line.n: line for line in turns.list_turns(paged).items}
    batch = turns.list_turns_of(paged, {7, 5, 4, 1, 99}, limit=3)
    assert batch.items == (whole[7], whole[5])
    rest = turns.list_turns_of(paged, {7, 5, 4, 1}, after=batch.next, limit=3)
    assert rest.items == (whole[4], whole[1])


def test_context_names_each_text_in_its_order(paged: Thread) -> None:
    shown = turns.get_context(paged, 7)
    assert shown is not None
    assert shown.verified
    assert [used.place for used in shown.used] == list(range(1, len(shown.used) + 1))
    assert shown.used[0].page_id == "policy"
    assert sum(part.tokens for part in shown.parts) <= shown.event.tokens
    assert sum(part.refs for part in shown.parts) == len(shown.used)


def test_erased_text_leaves_a_gap_in_the_list(paged: Thread) -> None:
    operator_pages.delete_page(paged, "policy", actor="operator:x")
    shown = turns.get_context(paged, 7)
    assert shown is not None
    assert (shown.request, shown.verified) == (None, False)
    assert shown.missing == ("policy",)
    first, *others = shown.used
    assert (first.gone, first.tokens) == (True, None)
    # The state that was packed still says whose it was.
    assert first.page_id == "policy"
    assert not any(used.gone for used in others)
    assert all(used.range is None for used in shown.used)


def test_each_text_lies_in_the_request_where_it_says(paged: Thread) -> None:
    for n in range(1, 8):
        shown = turns.get_context(paged, n, with_ranges=True)
        assert shown is not None
        assert shown.request is not None
        end = 0
        for used in shown.used:
            assert used.range is not None
            assert used.range[0] >= end
            end = used.range[1]
            text = shown.request[slice(*used.range)].decode()
            (first, *_) = json.loads(f"[{text}]")
            for call in first.get("tool_calls", ()):
                if call["function"]["name"] == "page_fault":
                    assert used.page_id in call["function"]["arguments"]


def test_reason_of_a_shown_text_comes_from_the_packed_state(paged: Thread) -> None:
    shown = turns.get_context(paged, 7)
    assert shown is not None
    state = fold_thread(paged, shown.event.as_of_seq).state
    why = {used.page_id: used.inclusion for used in shown.used}
    assert {inclusion.why for inclusion in why.values() if inclusion} >= {
        "explicit",
        "newest",
        "recent",
    }
    for page_id, inclusion in why.items():
        assert inclusion is not None
        frame = state.paging.frames[page_id]
        assert inclusion.cause_seq == frame.cause_seq
    newest = [page_id for page_id, each in why.items() if each and each.why == "newest"]
    assert newest == [f"slot-{paged.slot_count - 1}"]


def test_turn_names_what_was_fetched_and_what_refused(paged: Thread) -> None:
    found = turn_faults.get_faults(paged, 6)
    assert found is not None
    assert [fault.refused for fault in found.faults] == [False, True]
    assert found.faults[0].body["page_id"].startswith("slot-")
    assert "slot-999" not in str(found.faults[1].body)
    assert (found.looked_to, found.more) == (None, False)
    for other in (5, 7):
        assert turn_faults.get_faults(paged, other) == turn_faults.TurnFaults(
            faults=(), looked_to=None, more=False
        )


def test_turn_faults_are_searched_within_a_bound(
    paged: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = turn_faults.get_faults(paged, 6)
    assert whole is not None
    monkeypatch.setattr(turn_faults, "SHOWN", 1)
    cut = turn_faults.get_faults(paged, 6)
    assert cut is not None
    assert (cut.faults, cut.more) == (whole.faults[:1], True)
    monkeypatch.setattr(turn_faults, "EVENTS", 2)
    short = turn_faults.get_faults(paged, 6)
    assert short is not None
    assert (short.faults, short.looked_to) == ((), turns.get_turn(paged, 6).seq + 2)


def test_fork_shows_the_turns_it_inherits(agent: Agent, paged: Thread) -> None:
    operator_threads.fork(paged, actor="operator:x", name="alt", seq=paged.head_seq)
    fork = factories.get_thread(agent, "alt")
    inherited = turns.list_turns(fork).items
    assert [line.n for line in inherited] == [7, 6, 5, 4, 3, 2, 1]
    assert all(line.inherited and line.home == paged.id for line in inherited)
    assert [line.moved for line in inherited] == [
        line.moved for line in turns.list_turns(paged).items
    ]
    shown = turns.get_context(fork, 7)
    assert shown is not None
    assert shown.verified
    assert shown.recorded.home.id == paged.id
    with pytest.raises(NotFoundError):
        turns.get_context(fork, 8)


def test_turn_list_costs_a_constant_number_of_statements(
    agent: Agent,
    paged: Thread,
    django_assert_num_queries: object,
    django_assert_max_num_queries: object,
) -> None:
    longer = make_paged(agent, "longer", rounds=14)
    for thread in (paged, longer):
        with django_assert_num_queries(2):  # type: ignore[operator]  # a fixture
            turns.list_turns(thread)
        shown = turns.get_context(thread, 7)
        # Two more say what became of what was brought along.
        recall = shown is not None and shown.recorded.record.recall is not None
        with django_assert_max_num_queries(5 + 2 * recall):  # type: ignore[operator]  # a fixture
            turns.get_context(thread, 7)


def test_packed_tokens_are_told_as_of_any_event(agent: Agent, paged: Thread) -> None:
    lines = turns.list_turns(paged).items
    packed = {line.n: line.packed.tokens for line in lines if line.packed}
    head = paged.head_seq
    assert turns.get_packed_tokens(paged, {*packed}, up_to=head) == packed
    before = (lines[0].packed_seq or 0) - 1
    earlier = turns.get_packed_tokens(paged, {6, 7}, up_to=before)
    assert earlier == {6: packed[6]}
    operator_threads.fork(paged, actor="operator:x", name="alt", seq=head)
    fork = factories.get_thread(agent, "alt")
    assert turns.get_packed_tokens(fork, {7}, up_to=fork.head_seq) == {7: packed[7]}
