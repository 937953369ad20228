"""Marks of turns as stored: history, forks, erasure, and the list of a project."""

from __future__ import annotations

import pytest

from memoryhub.errors import InvalidError, NotFoundError
from memoryhub.kernel import state_json
from memoryhub.kernel.commands import CloseThread
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.kernel.state.turn_marks import MarkWord
from memoryhub.models.slots import MarkedTurn
from memoryhub.models.subjects import Subject
from memoryhub.queries.lists.cursors import iter_batches
from memoryhub.queries.replay.states import load_state
from memoryhub.queries.turns import marks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.turns.marks import mark_for_operator
from tests.cast import bundled, erasings, forgetting
from tests.cast.factories import get_thread, make_thread
from tests.oracles import memory_acts
from tests.oracles.page_acts import act
from tests.services.acts import fork

pytestmark = pytest.mark.django_db
COMMENT = "The fare of 12A is refundable."


def mark_turn(
    agent: Agent, turn: int, mark: MarkWord | None, comment: str = "", at: str = "t-1"
) -> int:
    thread = get_thread(agent, at)
    receipt = mark_for_operator(thread, turn, mark, comment, actor="operator:1")
    return receipt.seq


def begin_turns(agent: Agent, *names: str, user_id: str = "ann") -> None:
    for name in names:
        make_thread(agent, name, user_id=user_id)
        act(agent, BeginTurn(), name)
        act(agent, BeginTurn(), name)


def list_marked(agent: Agent, mark: MarkWord | None = None) -> list[object]:
    found = iter_batches(
        lambda after: marks.list_marked_turns(
            agent.project, mark=mark, after=after, limit=1
        )
    )
    lines = [line for batch in found for line in batch]
    return [(line.thread.name, line.turn, line.mark, line.comment) for line in lines]


def get_words(agent: Agent, seq: int | None = None, name: str = "t-1") -> object:
    thread = get_thread(agent, name)
    state = load_state(thread, seq)
    assert state_json.from_json(state_json.to_json(state)) == state
    found = marks.list_marks(thread, state, [1, 2])
    return {n: (line.mark, line.comment) for n, line in found.items()}


def test_newest_mark_of_a_turn_counts_as_of_any_event(agent: Agent) -> None:
    begin_turns(agent, "t-1")
    first = mark_turn(agent, 1, "wrong", COMMENT)
    mark_turn(agent, 2, "good")
    assert mark_turn(agent, 2, "good") == mark_turn(agent, 2, "good")
    assert get_words(agent) == {1: ("wrong", COMMENT), 2: ("good", None)}
    mark_turn(agent, 1, "good")
    assert get_words(agent, first) == {1: ("wrong", COMMENT)}
    mark_turn(agent, 1, None)
    assert get_words(agent) == {2: ("good", None)}
    for turn in (0, 3):
        with pytest.raises(NotFoundError):
            mark_turn(agent, turn, "wrong")
    with pytest.raises(InvalidError):
        mark_turn(agent, 1, "wrong", "a" * 2_001)
    erasings.sound(get_thread(agent))


def test_marks_survive_a_restore_and_are_written_when_closed(agent: Agent) -> None:
    begin_turns(agent, "t-1")
    memory_acts.take(agent, "before")
    mark_turn(agent, 1, "wrong")
    memory_acts.restore(agent, "before")
    act(agent, CloseThread())
    mark_turn(agent, 2, "good")
    assert get_words(agent) == {1: ("wrong", None), 2: ("good", None)}
    erasings.sound(get_thread(agent))


def test_marked_turns_of_a_project_are_listed_newest_first(agent: Agent) -> None:
    begin_turns(agent, "t-1", "t-2")
    begin_turns(agent, "bob-1", user_id="bob")
    mark_turn(agent, 1, "wrong", COMMENT)
    mark_turn(agent, 2, "good", at="bob-1")
    mark_turn(agent, 1, "wrong", at="t-2")
    mark_turn(agent, 2, "good", at="t-2")
    mark_turn(agent, 2, None, at="t-2")
    wrong = [("t-2", 1, "wrong", None), ("t-1", 1, "wrong", COMMENT)]
    good = ("bob-1", 2, "good", None)
    assert list_marked(agent) == [wrong[0], good, wrong[1]]
    assert list_marked(agent, "wrong") == wrong
    bob = subjects.find_or_create(agent.project, "bob")
    (line,) = marks.list_marked_turns(agent.project, bound=bob.id).items
    assert line.thread.name == "bob-1"
    Subject.objects.filter(id=bob.id).update(state=Subject.State.RESTRICTED)
    assert list_marked(agent, "good") == []


@pytest.mark.django_db(transaction=True)
def test_fork_inherits_marks_and_their_erasure(agent: Agent) -> None:
    begin_turns(agent, "t-1")
    seq = mark_turn(agent, 1, "wrong", COMMENT)
    mark_turn(agent, 2, "good")
    fork(agent, "t-1", "branch", seq=seq)
    mark_turn(agent, 2, "wrong", "two", at="branch")
    assert get_words(agent, name="branch") == {
        1: ("wrong", COMMENT),
        2: ("wrong", "two"),
    }
    thread, branch = get_thread(agent), get_thread(agent, "branch")
    erasings.sound(thread, branch)
    forgetting.forget(thread.subject, "record", thread=thread, seq=seq)
    assert (get_words(agent), get_words(agent, name="branch")) == (
        {2: ("good", None)},
        {2: ("wrong", "two")},
    )
    assert MarkedTurn.objects.count() == 2
    erasings.sound(get_thread(agent), get_thread(agent, "branch"))


def test_marks_are_exported(agent: Agent) -> None:
    begin_turns(agent, "t-1")
    mark_turn(agent, 1, "wrong", COMMENT)
    data = bundled.export(subjects.find_or_create(agent.project, "ann"))
    bundle = bundled.open_bundle(data)
    (record,) = bundled.list_records(bundle, "state/marks.jsonl")
    assert (record["turn"], record["mark"], record["comment"]) == (1, "wrong", COMMENT)
