"""Lines of blocks that a correction can change."""

from __future__ import annotations

import pytest

from memoryhub.queries.knowledge import blocks, corrected_lines
from memoryhub.queries.knowledge import facts as known
from memoryhub.queries.knowledge.corrected_lines import LineChoice
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.knowledge.blocks import BlockDraft
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, say, to_day, write

pytestmark = pytest.mark.django_db


def test_line_is_offered_unless_something_stands_in_the_way(agent: Agent) -> None:
    factories.make_thread(agent, "visit", user_id="ann")
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("Rome", 0))
    seq = say(agent, ann, claim("San José", 31)).seq
    locked = BlockDraft(block="rules", text="From San José.", read_only=True)
    factories.run(writing.put_block(agent=agent, subject=ann, draft=locked))
    text = "san josé, then\nSan-Jose\nNot San José or SAN JOSÉ.\nRome"
    home = write(agent, ann, "guest", text)
    views = blocks.list_blocks(home)

    def list_lines(seq: int) -> list[tuple[LineChoice, str | None, int]]:
        story = known.get_fact(ann, seq, now=to_day(90))
        lines = corrected_lines.list_correctable_lines(story, views, at=to_day(90))
        return [(each.place, each.obstacle, len(each.pieces)) for each in lines]

    assert list_lines(seq) == [
        (LineChoice("rules", 1, 1), "read_only", 3),
        (LineChoice("guest", 1, 1), None, 3),
        (LineChoice("guest", 1, 2), "otherwise", 1),
        (LineChoice("guest", 1, 3), None, 5),
        (LineChoice("guest", 1, 4), None, 3),
    ]
    # What is no longer true is offered nowhere: another value holds.
    assert list_lines(seq - 1) == [(LineChoice("guest", 1, 4), "outdated", 3)]


def test_line_of_an_earlier_value_is_offered_with_the_value_that_holds(
    agent: Agent,
) -> None:
    factories.make_thread(agent, "visit", user_id="ann")
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("Rome", 0))
    seq = say(agent, ann, claim("Oslo", 31)).seq
    say(agent, ann, claim("tea", 0, predicate="likes", many=True))
    home = write(agent, ann, "guest", "Home: Rome.\nWorks in Rome.\nRome, now Oslo.")
    story = known.get_fact(ann, seq, now=to_day(90))
    views = blocks.list_blocks(home)
    lines = corrected_lines.list_correctable_lines(story, views, at=to_day(90))
    found = [
        (each.place.line, each.value, each.names_property, each.obstacle)
        for each in lines
    ]
    assert found == [
        (3, "Oslo", False, None),
        (1, "Rome", True, None),
        (2, "Rome", False, None),
    ]
