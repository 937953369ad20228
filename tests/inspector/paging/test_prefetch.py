from __future__ import annotations

import pytest
from django.test import Client

from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    CreatePages,
    EvictPage,
    ReferencePages,
)
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import build_message, do, make_paged, new_page, text_of
from tests.services.acts import amend

pytestmark = pytest.mark.django_db
URL = "/p/acme/threads/paged/paging/prefetch"


def test_page_of_prefetch_says_what_comes_and_what_stays(
    viewer: Client, agent: Agent
) -> None:
    make_paged(agent)
    assert "packed here for an empty message" in text_of(viewer, URL)
    amend(agent, "paged", config={"auto_pin_claims": False, "auto_pin_turns": 0})
    for name, size in (("seats", 1), ("meals", 9_000)):
        page = new_page(name, f"The {name} are paid for. " * size, map=size == 1)
        do(agent, "paged", CreatePages(pages=(page,)))
        do(agent, "paged", ReferencePages(page_ids=(name,)))
    assert "the request shows the page whole anyway" in text_of(viewer, URL)
    do(agent, "paged", BeginTurn(slots=(build_message("user", "Thank you."),)))
    do(agent, "paged", EvictPage(page_id="seats"))
    text = text_of(viewer, URL)
    assert "a claim that is used often" in text
    assert "larger than all that a turn may prefetch" in text
    amend(agent, "paged", config={"recall": "off"})
    assert "recall is switched off" in text_of(viewer, URL)
