from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.errors import StaleError
from memoryhub.kernel.turns.calls import RecordCall
from memoryhub.models.events import Event
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import procedures
from tests.api.client import run
from tests.cast.erasings import sound
from tests.cast.factories import append, get_thread

pytestmark = pytest.mark.django_db(transaction=True)


def record(agent: Agent, outcome: Any, if_match: int | None = None, **sent: Any) -> int:
    command = RecordCall(tool="fly", arguments=sent, outcome=outcome)
    receipt = run(
        procedures.record_call(
            agent=agent, thread="t-1", command=command, if_match=if_match
        )
    )
    return receipt.seq


def test_page_is_written_with_the_call_that_makes_a_pattern(agent: Agent) -> None:
    append(agent, "t-1", "Book a flight")
    head = record(agent, "failure", day=1)
    with pytest.raises(StaleError):
        record(agent, "success", if_match=head - 1, day=2)
    assert Event.objects.count() == head
    head = record(agent, "success", if_match=head, day=2)
    newest = Event.objects.order_by("-seq")[:2]
    assert [each.type for each in newest] == ["page.created", "call.recorded"]
    assert newest[0].seq == head
    sound(get_thread(agent))


def test_each_version_names_the_calls_it_quotes(agent: Agent) -> None:
    append(agent, "t-1", "Book a flight")
    record(agent, "failure", day=1)
    record(agent, "success", day=2)
    failed = record(agent, "failure", day="SECRET")
    head = record(agent, "success", day=3)
    (newest,) = Event.objects.filter(seq=head)
    assert newest.type == "page.updated"
    quoted = {each["seq"] for each in json.loads(newest.body)["sources"]}
    assert {failed, head - 1} <= quoted
    sound(get_thread(agent))
