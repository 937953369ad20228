"""Page of one event."""

from __future__ import annotations

import orjson
import pytest
from django.test import Client

from memoryhub.models.events import Event
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_paged

pytestmark = pytest.mark.django_db


def test_event_by_which_pages_left_lists_them_with_words_and_scores(
    agent: Agent, owner: Client
) -> None:
    thread = make_paged(agent)
    event = Event.objects.filter(thread=thread, type="pages.evicted").earliest("seq")
    page = owner.get(f"/p/acme/threads/paged/events/{event.seq}")
    listed = page.context["departed"]
    assert [each.page_id for each in listed] == orjson.loads(event.body)["page_ids"]
    assert len(listed) > 1
    assert {each.words.text.partition(" ")[0] for each in listed} <= {
        "Answer",
        "Round",
        "{",
    }
    scores = [each.score for each in listed]
    assert scores == sorted(scores)
    text = page.content.decode()
    for each in listed:
        assert f"left={each.page_id}#why" in text
    before = owner.get(f"/p/acme/threads/paged/events/{event.seq - 1}")
    assert before.context["departed"] == []
