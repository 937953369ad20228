from __future__ import annotations

import pytest

from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.threads import events, forks, timeline
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories, knowing

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk(agent: Agent) -> Thread:
    factories.append(agent, "t-1", "one", "two", "three")
    return factories.get_thread(agent)


def test_timeline_is_empty_before_the_first_event(talk: Thread) -> None:
    moment = timeline.get_moment(talk, 0)
    assert (moment.state.slot_count, moment.changes) == (0, ())


def test_changes_of_all_events_add_up_to_the_state(talk: Thread) -> None:
    deltas = [
        change.delta or 0
        for seq in range(1, talk.head_seq + 1)
        for change in timeline.get_moment(talk, seq).changes
        if change.name == "token_count"
    ]
    assert sum(deltas) == talk.token_count


def test_changes_of_facts_are_counts(agent: Agent, talk: Thread) -> None:
    said = knowing.say(agent, talk.subject, knowing.claim("OSL", 0))
    gone = knowing.retract(agent, talk.subject, said.seq)
    home = find_home(talk.subject)
    assert home is not None
    changed = [
        [(each.name, each.delta) for each in timeline.get_moment(home, seq).changes]
        for seq in (said.seq, gone.seq)
    ]
    assert changed == [[("knowledge · assertions", 1)], [("knowledge · retracted", 1)]]


def test_marks_beyond_what_is_near_are_found(talk: Thread) -> None:
    operator_threads.close(talk, actor="operator:x", reason="completed")
    operator_threads.reopen(talk, actor="operator:x")
    talk.refresh_from_db()
    near = events.list_events(talk, up_to=2)
    assert timeline.get_marks(talk, 2, near=near) == timeline.NearestMarks(
        previous=None, next=5
    )
    whole = events.list_events(talk)
    assert timeline.get_marks(talk, 6, near=whole).previous == 5


def test_family_is_a_tree_from_its_first_ancestor(agent: Agent, talk: Thread) -> None:
    for name, parent, seq in (("a", talk, 2), ("b", talk, 3)):
        operator_threads.fork(parent, actor="operator:x", name=name, seq=seq)
    child = factories.get_thread(agent, "a")
    operator_threads.fork(child, actor="operator:x", name="a.a", seq=1)
    tree = forks.get_tree(factories.get_thread(agent, "a.a"))
    found = [(branch.name, branch.level) for branch in tree.branches]
    assert found == [("t-1", 0), ("a", 1), ("a.a", 2), ("b", 1)]
    assert not tree.cut
