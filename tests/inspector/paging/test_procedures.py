from __future__ import annotations

import pytest
from django.test import Client

from memoryhub.kernel.turns.calls import RecordCall
from memoryhub.models.events import Event
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.paged import do, text_of

pytestmark = pytest.mark.django_db
URL = "/p/acme/threads/paged/procedures"


def test_page_of_procedures_shows_fixes_with_links_to_their_calls(
    viewer: Client, agent: Agent
) -> None:
    factories.append(agent, "paged", "Book a flight")
    bad = {"day": "<b>5 May</b>"}
    do(agent, "paged", RecordCall(tool="fly", arguments=bad, outcome="timeout"))
    do(agent, "paged", RecordCall(tool="fly", arguments={}, outcome="success"))
    text = text_of(viewer, URL)
    assert "2 calls, 1 failed" in text
    assert "-day" in text
    body = viewer.get(URL).content.decode()
    for call in Event.objects.filter(type="call.recorded"):
        assert f"/events/{call.seq}" in body


def test_page_of_procedures_says_that_nothing_was_recorded(
    viewer: Client, agent: Agent
) -> None:
    factories.make_thread(agent, "paged")
    assert "No recorded calls" in text_of(viewer, URL)
