"""Erasures of a thread whose log was reflected, to the receipt, on both engines."""

from __future__ import annotations

import pytest

from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers as acts
from tests.cast.factories import get_thread, make_thread, run
from tests.cast.forgetting import confirm, finish, plan
from tests.services.observing.test_extraction import SETTINGS, talk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.engines]


@pytest.mark.parametrize("scope", ["subject", "thread"])
def test_erasure_completes_when_a_log_was_reflected(agent: Agent, scope: str) -> None:
    make_thread(agent, "t-1", user_id="ann", **SETTINGS)
    talk(agent, 0, 140)
    run(acts.reflect_log(agent=agent, thread="t-1"))
    row = get_thread(agent)
    subject = Subject.objects.get(id=row.subject_id)
    target = {"thread": row} if scope == "thread" else {}
    reflected = Event.objects.filter(thread=row, type="log.reflected")
    (page,) = reflected.values_list("page", flat=True)
    erasure = finish(confirm(plan(subject, scope, **target)))
    assert (erasure.state, erasure.waiting_on) == (Erasure.State.COMPLETE, "")
    # The page's generated id stays, since the chain has hashed the id.
    assert [*reflected.values_list("page", flat=True)] == [page]
