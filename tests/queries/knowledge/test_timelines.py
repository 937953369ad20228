"""Reading timelines: a long one is read once for as long as nothing new is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import timelines
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, retract, say

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    return forgetting.get_subject(agent, "ann")


def count_reads(subject: Subject, seqs: Sequence[int]) -> tuple[int, int]:
    """Return the count of live values and the queries that reading them took."""
    home = find_home(subject)
    assert home is not None
    with CaptureQueriesContext(connection) as queries:
        (found,) = timelines.list_timelines(home, seqs)
    return len(found.living), len(queries)


def test_long_timeline_is_read_again_once_anything_new_is_known(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "_LONG", 3)
    first = say(agent, ann, claim("OSL", 0), claim("BGO", 1)).seq
    assert [count_reads(ann, [first]) for _ in range(2)] == [(2, 1), (2, 1)]
    say(agent, ann, claim("TRD", 2))
    assert [count_reads(ann, [first]) for _ in range(2)] == [(3, 1), (3, 0)]
    retract(agent, ann, first, "wrong")
    assert [count_reads(ann, [first]) for _ in range(2)] == [(2, 1), (2, 0)]
