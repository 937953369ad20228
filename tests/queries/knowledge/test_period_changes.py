"""Periods that a correction would change: told before it is made, as they come."""

from __future__ import annotations

import pytest

from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import facts, period_changes
from memoryhub.queries.knowledge.period_changes import PeriodChanges
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import corrections
from memoryhub.services.knowledge.corrections import Correction
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, say, to_day

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    return forgetting.get_subject(agent, "ann")


def preview(ann: Subject, seq: int, correction: Correction) -> PeriodChanges:
    now = clock.now()
    story = facts.get_fact(ann, seq, now=now, valid_at=to_day(1000))
    command = corrections.build_correction(ann, story, correction, now=now)
    chosen = period_changes.list_chosen(story, {*correction.periods})
    return period_changes.preview_changes(story, command.claims, chosen)


@pytest.mark.parametrize(
    ("value", "begin", "beyond"),
    [("OSL", None, False), ("TRS", None, True), ("OSL", 25, False), ("OSL", 9, False)],
)
def test_preview_tells_whether_neighbours_change(
    agent: Agent, ann: Subject, value: str, begin: int | None, *, beyond: bool
) -> None:
    say(agent, ann, claim("TRS", 3))
    seq = say(agent, ann, claim("BGO", 6)).seq
    since = begin and to_day(begin)
    changes = preview(ann, seq, Correction(value=value, since=since or None))
    assert changes.beyond is beyond
    assert ("TRS", to_day(3), to_day(6)) in changes.before or not beyond
    assert changes.after[-1][::2] == (value, None)


def test_change_of_a_past_value_that_cuts_through_later_ones_is_told(
    agent: Agent, ann: Subject
) -> None:
    seq = say(agent, ann, claim("TRS", 3)).seq
    say(agent, ann, claim("BGO", 6))
    changes = preview(ann, seq, Correction(value="OSL", since=to_day(9)))
    assert changes.beyond
    assert changes.before == (("BGO", to_day(6), None),)
    assert changes.after == (("BGO", to_day(6), to_day(9)), ("OSL", to_day(9), None))
