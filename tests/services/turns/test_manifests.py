"""Manifests of requests, compared with what the listed pages then serve."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.journal import texts
from memoryhub.kernel.packing import selection
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.paging.page_commands import (
    DeletePage,
    EvictPage,
    FaultPage,
    WriteLevels,
)
from memoryhub.queries.turns import contexts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_faults
from memoryhub.services.paging.page_faults import FetchedPage
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import BegunTurn, NewTurn
from tests.cast.factories import get_thread, make_slot, make_thread, run
from tests.oracles.page_acts import act, levels_of, make_pages, new_page
from tests.services.acts import amend, state_of

pytestmark = pytest.mark.django_db

TEXT = "The tool said a good deal about the fares of this and that class. " * 12
SHORT = {2: "About fares.", 3: "fares"}


def begin(agent: Agent, text: str, **given: Any) -> BegunTurn:
    new = NewTurn(slots=[make_slot(text)], **given)
    return run(turns.begin_turn(agent=agent, thread="t-1", new=new))


def manifest_of(begun: BegunTurn) -> dict[str, Any]:
    """Return the manifest that the model reads as the result of `page_list`."""
    messages = json.loads(begun.request)["messages"]
    (listing,) = (each for each in messages if _lists(each))
    result = messages[messages.index(listing) + 1]
    found: dict[str, Any] = json.loads(result["content"])
    return found


def _lists(message: dict[str, Any]) -> bool:
    calls = message.get("tool_calls") or ()
    return any(call["function"]["name"] == "page_list" for call in calls)


def policies_of(begun: BegunTurn) -> dict[str, Any]:
    """Return the policies in the developer's message, as in older threads."""
    (first, *_) = json.loads(begun.request)["messages"]
    start = first["content"].index('{"thread"')
    found, _ = json.JSONDecoder().raw_decode(first["content"][start:])
    policies: dict[str, Any] = found["policies"]
    return policies


def fault(agent: Agent, page_id: str, level: int = 0) -> FetchedPage:
    command = FaultPage(page_id=page_id, level=level, by="model")
    return run(page_faults.fault_page(agent=agent, thread="t-1", command=command))


@pytest.fixture
def paged(agent: Agent) -> Agent:
    """Make pages, of which some were evicted, some have levels, and one is mapped."""
    make_thread(
        agent,
        budget_tokens=9_000,
        reserved_tokens=4_000,
        max_faults_per_turn=2,
        auto_pin_turns=0,
    )
    begin(agent, "hello")
    make_pages(agent, *(new_page(f"p-{n}", f"{n}: {TEXT}") for n in range(6)))
    for n in (1, 3):
        act(agent, WriteLevels(made=levels_of(f"p-{n}", SHORT)))
    # Pages made in an exchange are pinned as long as the exchange goes on.
    begin(agent, "thanks")
    for n in range(5):
        act(agent, EvictPage(page_id=f"p-{n}"))
    return agent


def test_manifest_shows_recent_pages_and_real_levels(paged: Agent) -> None:
    """List each recent page with the levels at which the page can be fetched."""
    amend(paged, config={"max_faults_per_turn": 100})
    policies = manifest_of(begin(paged, "and now?"))
    shown = {row["page_id"]: row["levels"] for row in policies["available_pages"]}
    assert {f"p-{n}" for n in range(5)} <= shown.keys()
    # A page that is mapped whole is not listed.
    assert "p-5" not in shown
    served = 0
    for name, levels in shown.items():
        for level in levels:
            envelope = fault(paged, name, level).envelope.to_dict()
            assert (envelope["page_id"], envelope["level"]) == (name, level)
            act(paged, EvictPage(page_id=name))
            served += 1
    assert served > len(shown)


@pytest.fixture
def crowded(agent: Agent) -> Agent:
    """Make pages at home, except the newest, which is hot, and a deleted one."""
    make_thread(agent, l1_pages=1)
    pages = [new_page(f"p-{n}", TEXT, map=False) for n in range(8)]
    make_pages(agent, *pages)
    act(agent, WriteLevels(made=levels_of("p-3", SHORT)))
    act(agent, DeletePage(page_id="p-4"))
    return agent


def test_pages_at_home_come_newest_first(crowded: Agent) -> None:
    thread = get_thread(crowded)
    state = state_of(thread)
    home = contexts.list_home(thread, state, limit=4)
    assert [entry.page_id for entry in home] == ["p-6", "p-5", "p-3", "p-2"]
    assert [level is not None for level in home[2].levels] == [True, False, True, True]


@pytest.mark.usefixtures("sqlite")
def test_turn_does_not_scan_all_pages_of_a_thread(crowded: Agent) -> None:
    """Find each page's row by its id, or among a limited number of newest rows."""
    thread = get_thread(crowded)
    state = state_of(thread)
    with CaptureQueriesContext(connection) as queries:
        contexts.list_home(thread, state)
    assert len(queries) == 3
    for query in queries:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            plan = " ".join(str(row[-1]) for row in cursor.fetchall())
        bounded = "USING INDEX page_seq" in plan and "LIMIT" in query["sql"]
        assert bounded or "thread_id=? AND page_id=?" in plan, plan
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("mode", ["strict", "relaxed", "passive"])
def test_text_cache_changes_no_byte_of_a_request(paged: Agent, mode: Any) -> None:
    """Pack the same request with no texts, some texts and all texts cached."""
    begun = begin(paged, "and now?", mode=mode)
    row = get_thread(paged)
    state = state_of(row, begun.receipt.seq)
    options = PackingOptions(name="t-1", turn=begun.turn, mode=mode)
    places = selection.list_places(
        selection.build_packing_input(state, options, home=[])
    )
    assert len(places) > 2
    for warmed in ((), places[:2], places):
        texts.texts.clear()
        texts.open_texts(row, warmed)
        again = contexts.pack_request(row, state, options, before=None)
        assert again.request == begun.request
