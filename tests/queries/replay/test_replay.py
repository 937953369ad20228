from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memoryhub.errors import NotFoundError, SeqUnknownError
from memoryhub.journal import Address, Order, perform
from memoryhub.journal.log import log
from memoryhub.kernel.commands import ImportMessages, RunMessage
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models import Thread
from memoryhub.models.server.ids import uuid7
from memoryhub.queries.memory import stats
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import events, slots
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from tests.cast import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread(agent: Agent) -> Thread:
    """Make a thread: 1 created, 2 slot, 3 turn, 4 slot, 5 turn, 6 slot, 7 advanced."""
    factories.make_thread(agent, "t-1")
    perform(
        Order(
            address=Address(project=agent.project, name="t-1"),
            command=ImportMessages(
                after=0,
                messages=tuple(
                    RunMessage(slot=factories.make_slot(text), turn=turn)
                    for text, turn in (("a", False), ("b", True), ("c", True))
                ),
                digest="00",
            ),
            actor="import",
        )
    )
    return factories.get_thread(agent)


@pytest.mark.parametrize(("turn", "seq"), [(0, 2), (1, 4), (2, 7)])
def test_turn_ends_where_the_next_begins(thread: Thread, turn: int, seq: int) -> None:
    assert replay.get_turn_end(thread, turn) == seq
    assert replay.load_state_at(thread, seq).state.turn_count == turn


def test_turn_that_has_not_begun_is_unknown(thread: Thread) -> None:
    with pytest.raises(SeqUnknownError):
        replay.get_turn_end(thread, 3)
    with pytest.raises(SeqUnknownError):
        replay.load_state_at(thread, 8)


def test_replay_folds_on_from_the_state_kept_last(
    agent: Agent, thread: Thread, django_assert_num_queries: Any
) -> None:
    replay.load_state_at(thread, thread.head_seq)
    for _ in range(2):
        factories.append(agent, "t-1", "more")
        thread = factories.get_thread(agent)
        fold = log.fold_thread(thread, thread.head_seq)
        with django_assert_num_queries(2):
            assert replay.load_state_at(thread, thread.head_seq) == fold
    # Before what is kept there is nothing to go on from.
    assert replay.load_state_at(thread, 4).state.seq == 4


def test_seek_continues_from_the_seek_before(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seek continues within REACH, unless journal or epoch have changed."""
    monkeypatch.setattr(replay, "REACH", 2)
    folded = replay.load_state_at(thread, 2)
    # No event takes that away, and no fold brings it.
    marked = replace(folded, state=folded.state._replace(home=True))
    other = replace(marked, chain=bytes(32))
    for kept, seq, goes_on in (
        (marked, 2, True),
        (marked, 4, True),
        (marked, 1, False),
        (marked, 5, False),
        (other, 4, False),
    ):
        replay.sought.keep(thread, kept)
        state = replay.load_state_at(thread, seq).state
        assert (state.seq, state.home) == (seq, goes_on)
        # The last seek's state is kept.
        assert replay.load_state_at(thread, seq).state == state
    thread.subject.epoch += 1
    assert replay.sought.find(thread, up_to=4) is None


def test_kept_state_is_dropped_when_the_journal_is_another(thread: Thread) -> None:
    seq = thread.head_seq
    kept = replay.load_state_at(thread, seq)
    other = replace(kept, chain=bytes(32), state=kept.state._replace(turn_count=99))
    replay.followed.keep(thread, other)
    assert replay.load_state_at(thread, seq) == kept
    replay.followed.keep(thread, replace(other, chain=kept.chain))
    assert replay.load_state_at(thread, seq).state.turn_count == 99
    thread.subject.epoch += 1
    assert replay.followed.find(thread, up_to=seq) is None


def test_kept_states_are_limited(thread: Thread) -> None:
    folded = replay.load_state_at(thread, thread.head_seq)
    for _ in range(replay.KEPT_KIB // folded.state.size):
        other = Thread(id=uuid7(), subject=thread.subject)
        replay.followed.keep(other, folded)
    assert replay.followed.find(thread, up_to=thread.head_seq) is None


def test_following_ends_in_the_state_that_a_fold_gives(thread: Thread) -> None:
    folded = replay.load_state_at(thread, 1)
    for expected in (3, 5, 7, 7):
        folded = replay.follow(folded, head_seq=thread.head_seq, limit=2)
        assert folded == replay.load_state_at(thread, expected)


def test_turn_of_a_slot_is_the_one_before_it(thread: Thread) -> None:
    lines = slots.list_slots(thread).items
    assert [line.turn for line in lines] == [0, 1, 2]
    where = slots.SlotFilter(turn=1)
    (line,) = slots.list_slots(thread, where=where).items
    assert line.content == "b"


def test_window_stands_around_a_seq(thread: Thread) -> None:
    around = slots.list_slots_around(thread, 4, before=1, after=1)
    assert [line.content for line in around] == ["b", "c"]
    assert slots.list_slots_around(thread, 1, before=5, after=0) == ()


def test_fork_reads_what_its_ancestors_hold(agent: Agent, thread: Thread) -> None:
    command = threads.build_fork(
        thread, 4, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    factories.run(threads.fork(agent=agent, name="f", command=command))
    factories.append(agent, "f", "d")
    fork = factories.get_thread(agent, "f")
    lines = slots.list_slots(fork).items
    assert [line.content for line in lines] == ["a", "b", "d"]
    assert [line.home for line in lines] == [thread.id, thread.id, fork.id]
    assert slots.count_slots(fork, at_seq=1) == 2
    assert slots.get_slot(fork, 1).inherited
    with pytest.raises(NotFoundError):
        slots.get_slot(fork, 2, at_seq=1)
    counted = stats.get_thread_stats(fork, now=fork.last_event_at)
    assert (counted.slots, counted.inherited, counted.turns) == (3, 2, 1)


@pytest.mark.parametrize("size", [2, 60])
def test_replay_queries_cost_the_same_at_any_size(
    agent: Agent, size: int, django_assert_num_queries: Any
) -> None:
    factories.append(agent, "t-9", *range(size))
    thread = factories.get_thread(agent, "t-9")
    slots.list_slots(thread)
    with django_assert_num_queries(2):
        assert len(slots.list_slots(thread, limit=200).items) == size
    with django_assert_num_queries(2):
        slots.get_slot(thread, size - 1)
    with django_assert_num_queries(1):
        assert len(events.list_events(thread, limit=200)) == size + 1
    with django_assert_num_queries(1):
        assert events.get_event(thread, 2).payload == {"content": 0}
    with django_assert_num_queries(4):
        stats.get_thread_stats(thread, now=thread.last_event_at)


def test_events_read_from_either_end(thread: Thread) -> None:
    newest = events.list_events(thread, order="desc", limit=2)
    assert [line.seq for line in newest] == [7, 6]
    between = events.list_events(thread, after=2, up_to=4)
    assert [line.type for line in between] == ["turn.began", "slot.appended"]
    with pytest.raises(SeqUnknownError):
        events.get_event(thread, 99)
