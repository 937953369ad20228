"""The conversation as of an event: pages that its turns packed."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from inspector.replay.conversation import pick_newest
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_paged, text_of

pytestmark = pytest.mark.django_db


def test_conversation_shows_what_its_turns_packed(viewer: Client, agent: Agent) -> None:
    paged = make_paged(agent)
    page = text_of(viewer, f"/p/acme/threads/{paged.name}")
    assert re.search(r'turns/\d">Turn \d</a><span>[\d,]+ packed</span>', page)


@pytest.mark.parametrize(
    ("total", "first"), [(0, 0), (5, 0), (8, 0), (9, 4), (100, 95)]
)
def test_conversation_opens_with_the_newest_messages(total: int, first: int) -> None:
    assert pick_newest(total) == range(first, total)
