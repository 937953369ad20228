"""Lines of blocks that say facts, current and outdated ones."""

from __future__ import annotations

import pytest

from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import block_lines, blocks
from memoryhub.queries.knowledge import facts as known
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, retract, say, to_day, write

pytestmark = pytest.mark.django_db
NOW = to_day(1000)


def list_outdated(home: Thread) -> list[tuple[str, int, str, tuple[str, ...]]]:
    found = block_lines.list_outdated_lines(home, blocks.list_blocks(home), at=NOW)
    return [(each.block, each.line, each.value, each.instead) for each in found]


def test_line_that_says_an_outdated_value_is_found(agent: Agent) -> None:
    factories.make_thread(agent, "visit", user_id="ann")
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("Oslo", 0), claim("tea", 0, predicate="likes"))
    write(agent, ann, "guest", "Likes tea.\nFlies from OSLO.\nOslo, now Bergen")
    home = find_home(ann)
    assert home is not None
    assert list_outdated(home) == []
    seq = say(agent, ann, claim("Bergen", 31), claim("jam", 9, predicate="likes")).seq
    home.refresh_from_db()
    # Line 3 says both; tea and jam are liked at once.
    assert list_outdated(home) == [("guest", 2, "Oslo", ("Bergen",))]
    timeline = known.get_fact(ann, seq - 1, now=NOW).unopened
    views = blocks.list_blocks(home)
    lines = block_lines.list_lines_of_fact(home, views, timeline, at=NOW)
    assert {(each.line, each.value, each.outdated) for each in lines} == {
        (2, "Oslo", True),
        (3, "Bergen", False),
    }
    retract(agent, ann, seq, "wrong")
    home.refresh_from_db()
    assert list_outdated(home) == [("guest", 2, "Oslo", ("Bergen",))]


def test_line_of_a_value_that_contains_the_new_one_is_found(agent: Agent) -> None:
    factories.make_thread(agent, "visit", user_id="ann")
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("green tea", 0, predicate="drinks"))
    write(agent, ann, "guest", "Drinks green tea.\nDrinks tea, was green tea")
    say(agent, ann, claim("tea", 9, predicate="drinks"))
    home = find_home(ann)
    assert home is not None
    assert list_outdated(home) == [("guest", 1, "green tea", ("tea",))]


def test_line_of_several_values_is_found_by_one_that_holds_no_longer(
    agent: Agent,
) -> None:
    factories.make_thread(agent, "visit", user_id="ann")
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("nuts", 0, predicate="avoids", many=True))
    seq = say(agent, ann, claim("milk", 0, predicate="avoids", many=True)).seq
    write(agent, ann, "guest", "Avoids nuts and milk.")
    retract(agent, ann, seq, "wrong")
    home = find_home(ann)
    assert home is not None
    assert list_outdated(home) == [("guest", 1, "milk", ("nuts",))]
