"""Short lists of the newest knowledge: facts, blocks, and turns that carried blocks."""

from __future__ import annotations

import pytest

from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import block_turns, blocks, facts
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.people import profiles
from memoryhub.queries.threads import slots
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.people import subjects
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories
from tests.cast.knowing import claim, end, retract, say, to_day, write

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "talk", user_id="ann")
    factories.append(agent, "talk", "Hello.")
    return subjects.find_or_create(agent.project, "ann")


def get_home(subject: Subject) -> Thread:
    home = find_home(subject)
    assert home is not None
    return home


def test_recent_facts_hold_and_come_latest_confirmed_first(
    agent: Agent, ann: Subject
) -> None:
    say(agent, ann, claim("OSL", 0), claim("12A", 1, predicate="seat"))
    ended = say(agent, ann, claim("Otto", 2, predicate="dog")).seq
    wrong = say(agent, ann, claim("Mia", 3, predicate="partner")).seq
    end(agent, ann, ended, 4)
    retract(agent, ann, wrong)
    say(agent, ann, claim("OSL", 5))
    found = facts.list_recent(get_home(ann), at=to_day(9), limit=5)
    assert [each.value for each in found] == ["OSL", "12A"]
    (first,) = facts.list_recent(get_home(ann), at=to_day(9), limit=1)
    assert first.value == "OSL"


def test_current_blocks_leave_out_deleted_ones(agent: Agent, ann: Subject) -> None:
    for name in ("persona", "travel", "guest"):
        write(agent, ann, name, f"The {name} of Ann.")
    home = get_home(ann)
    factories.run(writing.delete_block(agent=agent, subject=ann, block="travel"))
    found = blocks.list_current(get_home(ann), limit=9)
    assert [each.block for each in found] == ["persona", "guest"]
    assert found == blocks.list_blocks(get_home(ann))
    assert [each.block for each in blocks.list_current(home, limit=1)] == ["persona"]


def test_recent_carriers_are_turns_with_a_block(agent: Agent, ann: Subject) -> None:
    factories.run(turns.begin_turn(agent=agent, thread="talk", new=NewTurn()))
    write(agent, ann, "persona", "Ann flies.")
    for name in ("talk", "more"):
        factories.make_thread(agent, name, user_id="ann")
        factories.run(turns.begin_turn(agent=agent, thread=name, new=NewTurn()))
    home, threads = get_home(ann), profiles.list_sessions(ann)
    found = block_turns.list_recent(home, threads, limit=5)
    assert [(each.thread, each.turn) for each in found] == [("more", 1), ("talk", 2)]
    assert len(block_turns.list_recent(home, threads, limit=1)) == 1
    assert block_turns.list_recent(home, [], limit=5) == []


def test_indexes_are_of_messages_in_the_project(
    agent: Agent, stranger: Agent, ann: Subject
) -> None:
    places = [("talk", 1), ("talk", 2), ("nowhere", 2)]
    assert slots.map_indexes(agent.project, places) == {("talk", 2): 0}
    assert slots.map_indexes(stranger.project, places) == {}
