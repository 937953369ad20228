"""The migration by which Idempotency-Keys belong to a person: forth and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoryhub.journal import Request
from memoryhub.journal.log import requests
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.models.events import RequestKey
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, make_thread
from tests.cast.forgetting import of
from tests.models.migrated import guarded, migrate

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "0007_privacy", "0008_requests_about_people"


@pytest.fixture(autouse=True)
def migrated() -> Iterator[None]:
    """Whatever a test did, those after it find the tables as they should be."""
    yield
    migrate()


def test_those_of_threads_belong_to_their_subjects(agent: Agent) -> None:
    """And are honoured afterwards; those about people are none without the column."""
    request = Request(key="m-1", fingerprint=b"one")
    for user_id in ("ann", "bob"):
        make_thread(agent, user_id, user_id=user_id)
    first = append(agent, "ann", "one", request=request)
    append(agent, "bob", "one", "two")
    ann = of(agent, "ann").id
    other = Request(key="m-2", fingerprint=b"two")
    repeat = PersonRequest(project=agent.project, bound=None, request=other)
    requests.claim(repeat, subject=ann)
    for _ in range(2):
        migrate(BEFORE)
        assert guarded()
        migrate(AFTER)
        assert guarded()
        rows = RequestKey.objects.values_list("subject", "thread__subject")
        assert [*rows] == [(ann, ann)]
    migrate()
    again = append(agent, "ann", "one", request=request)
    assert (again.replayed, again.seq) == (True, first.seq)
