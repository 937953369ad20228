"""The conversation as of an event: pages that its turns packed."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from inspector.replay.conversation import split_windows
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_paged, text_of

pytestmark = pytest.mark.django_db


def test_conversation_shows_what_its_turns_packed(viewer: Client, agent: Agent) -> None:
    paged = make_paged(agent)
    page = text_of(viewer, f"/p/acme/threads/{paged.name}")
    assert re.search(r'turns/\d">Turn \d</a><span>[\d,]+ packed</span>', page)


@pytest.mark.parametrize(
    ("here", "total", "windows"),
    [
        (0, 0, []),
        (4, 5, [range(5)]),
        (99, 100, [range(95, 100)]),
        (90, 100, [range(89, 100)]),
        (20, 100, [range(19, 22), range(95, 100)]),
    ],
)
def test_conversation_shows_the_event_s_message_and_the_newest(
    here: int, total: int, windows: list[range]
) -> None:
    assert split_windows(here, total) == windows
