from __future__ import annotations

import re

import pytest
from django.test import Client

from inspector.paging import paging
from memoryhub.kernel.paging.page_commands import ReferencePages
from memoryhub.queries.paging import curves
from memoryhub.queries.replay import replay
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.paged import do, make_paged, text_of
from tests.services.acts import amend

pytestmark = pytest.mark.django_db
URL = "/p/acme/threads/paged/paging/curves"


def test_page_of_curves_shows_what_the_query_found(
    viewer: Client, agent: Agent
) -> None:
    thread = make_paged(agent)
    config = replay.load_state_at(thread, thread.head_seq).state.config
    amend(agent, "paged", config={**config.model_dump(), "tlb_entries": 4})
    for n in range(40):
        page_id = "policy" if n % 3 else f"slot-{n % 8}"
        do(agent, "paged", ReferencePages(page_ids=(page_id,)))
    thread = factories.get_thread(agent, "paged")
    found = curves.get_curves(
        thread, replay.load_state_at(thread, thread.head_seq).state
    )
    text = text_of(viewer, URL)
    assert "Misses by size of the TLB" in text
    assert f"It missed {found.misses} of {found.lookups} look-ups" in text
    for run in found.runs:
        assert f"{run.evicted} evicted" in text


def test_page_of_curves_says_that_nothing_was_looked_up(
    viewer: Client, agent: Agent
) -> None:
    factories.make_thread(agent, "paged")
    assert "No look-ups in these events" in text_of(viewer, URL)


def test_page_of_a_long_thread_asks_for_its_curves(
    viewer: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "_QUICK_EVENTS", 0)
    factories.make_thread(agent, "paged")
    page = viewer.get(URL).content.decode()
    asked = re.search(r'hx-get="([^"]*)"[^>]* hx-select="#curves"', page)
    assert asked
    assert "look-ups" not in page
    assert 'id="curves"' in (whole := viewer.get(asked[1]).content.decode())
    assert "No look-ups in these events" in whole
