"""The conversation as of an event: pages that its turns packed."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_paged, text_of

pytestmark = pytest.mark.django_db


def test_conversation_shows_what_its_turns_packed(viewer: Client, agent: Agent) -> None:
    paged = make_paged(agent)
    page = text_of(viewer, f"/p/acme/threads/{paged.name}")
    assert re.search(r'turns/\d">Turn \d</a><span>[\d,]+ packed</span>', page)
