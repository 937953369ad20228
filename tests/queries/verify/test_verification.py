"""Differences that are read again, since an erasure may have made them."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models.erasures import Erasure
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.verify import verification
from memoryhub.queries.verify.verification import Difference
from memoryhub.services.access.api_keys import Agent
from tests.cast.forgetting import confirm, finish, forget, make_person, plan

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "keys"]),
    pytest.mark.no_replay,
]


def read(subject: Subject) -> Thread:
    return Thread.objects.select_related("subject").get(subject=subject)


def require_difference(thread: Thread) -> Difference:
    found = verification.verify(thread)
    assert found is not None
    return found


def refuse_wait(_: float) -> None:
    raise AssertionError("no erasure is under way")


@pytest.mark.parametrize("scope", ["subject", "thread", "record"])
def test_difference_of_a_thread_read_before_an_erasure_is_not_confirmed(
    agent: Agent, scope: str
) -> None:
    subject = make_person(agent, "ann")
    stale = read(subject)
    places: dict[str, dict[str, Any]] = {
        "subject": {},
        "thread": {"thread": stale},
        "record": {"thread": stale, "seq": 2},
    }
    forget(subject, scope, **places[scope])
    found = require_difference(stale)
    assert verification.confirm(found, stale.id, wait=refuse_wait) is None


def test_difference_without_an_erasure_is_confirmed(agent: Agent) -> None:
    thread = read(make_person(agent, "ann"))
    Slot.objects.filter(thread=thread).delete()
    found = require_difference(thread)
    assert verification.confirm(found, thread.id, wait=refuse_wait) == found


def test_difference_during_an_erasure_is_read_until_its_end(agent: Agent) -> None:
    subject = make_person(agent, "ann")
    row = confirm(plan(subject))
    assert row.state == Erasure.State.FENCED
    thread = read(subject)
    Slot.objects.filter(thread=thread).delete()
    found = require_difference(thread)

    def wait(_: float) -> None:
        finish(row)

    assert verification.confirm(found, thread.id, wait=wait) is None


def test_difference_during_a_stuck_erasure_says_so(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "CONFIRM_SECONDS", 0.0)
    subject = make_person(agent, "ann")
    confirm(plan(subject))
    thread = read(subject)
    Slot.objects.filter(thread=thread).delete()
    found = verification.confirm(require_difference(thread), thread.id)
    assert found is not None
    assert found.erasing
