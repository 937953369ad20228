"""Lanes: what came late, what was believed before, and at what cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import lanes
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, retract, say, to_spans

pytestmark = pytest.mark.django_db
START = datetime(2030, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    return forgetting.get_subject(agent, "ann")


def test_late_fact_is_listed_with_the_belief_that_it_corrected(
    agent: Agent, ann: Subject
) -> None:
    with time_machine.travel(START, tick=False) as clock:
        say(agent, ann, claim("OSL", 0), claim("Gold", 0, predicate="tier"))
        clock.shift(timedelta(days=20))
        late = say(agent, ann, claim("BGO", 31, 90)).seq
    tier, airport = sorted(lanes.get_lanes(ann).lanes, key=lambda x: len(x.facts))
    assert (tier.late, tier.believed) == (frozenset(), ())
    assert airport.late == {late}
    assert airport.corrected_at == START + timedelta(days=20)
    assert to_spans([*airport.believed]) == [("OSL", 0, None)]
    assert len(airport.facts) == 3
    before = lanes.get_lanes(ann, known_at=late - 1)
    assert [len(lane.facts) for lane in before.lanes] == [1, 1]


def test_lanes_cost_the_same_however_many_they_are(
    agent: Agent, ann: Subject, django_assert_num_queries: Any
) -> None:
    made = [claim(f"v {n}", n, predicate=f"p {n % 7}") for n in range(40)]
    seq = say(agent, ann, *made).seq
    retract(agent, ann, seq, "wrong")
    with django_assert_num_queries(9):
        found = lanes.get_lanes(ann)
    assert len(found.lanes) == 7
    assert sum(len(lane.facts) for lane in found.lanes) == 39


def test_lanes_go_on_in_parts(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LANES", 3)
    say(agent, ann, *(claim("x", 1, predicate=f"p {n}") for n in range(7)))
    seen, since = [], ""
    while True:
        found = lanes.get_lanes(ann, since=since)
        seen += [lane.predicate for lane in found.lanes]
        if found.more is None:
            break
        since = found.more
    assert sorted(seen) == [f"p {n}" for n in range(7)]
