"""What a model finds by page_search, and how that is told and counted."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.journal.log import thread_terms
from memoryhub.models.events import Event
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_faults
from tests.cast import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    thread_terms.indexes.clear()


def call(agent: Agent, **arguments: Any) -> str:
    function = {"name": "page_search", "arguments": arguments}
    sent = {"id": "call_1", "type": "function", "function": function}
    message = factories.run(page_faults.call(agent=agent, thread="t-1", sent=sent))
    assert (message["role"], message["name"]) == ("tool", "page_search")
    return str(message["content"])


def counted() -> list[str]:
    rows = Event.objects.filter(type="pages.searched").order_by("seq")
    return [*rows.values_list("body", flat=True)]


def test_a_model_finds_pages_by_their_words(agent: Agent) -> None:
    factories.append(agent, "t-1", *(f"filler {n}" for n in range(9)), "the blue lamp")
    head, _, hit = call(agent, query="lamp").split("\n")
    assert head == "1 of 1 pages · 2 searches left"
    assert hit.startswith("slot-9 · user · ")
    assert hit.endswith(": the blue lamp")
    (body,) = counted()
    assert '"results":1' in body
    assert "lamp" not in body


def test_three_searches_an_exchange(agent: Agent) -> None:
    factories.append(agent, "t-1", "the blue lamp")
    for left in (2, 1, 0):
        assert f"{left} searches left" in call(agent, query="lamp")
    assert call(agent, query="lamp") == "No searches are left in this exchange."
    assert len(counted()) == 3
    factories.append(agent, "t-1", "again")
    assert "2 searches left" in call(agent, query="lamp")


def test_a_search_that_finds_nothing_says_so_and_counts(agent: Agent) -> None:
    factories.append(agent, "t-1", "the blue lamp")
    assert call(agent, query="piano") == "0 of 0 pages · 2 searches left"
    assert len(counted()) == 1


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({}, "query: expected words"),
        ({"query": " "}, "query: expected words"),
        ({"query": "x", "limit": 0}, "limit: expected 1 to 10"),
        ({"query": "x", "limit": 11}, "limit: expected 1 to 10"),
        ({"query": "\ud800"}, "arguments: expected JSON text"),
        ({"query": "x", "page_id": "y"}, "unknown field; there are query and limit"),
    ],
)
def test_a_mistake_is_answered_by_a_sentence(
    agent: Agent, arguments: dict[str, Any], answer: str
) -> None:
    factories.append(agent, "t-1", "hello")
    assert call(agent, **arguments) == f"This call can't be followed: {answer}."
    assert not counted()


@pytest.mark.parametrize(
    ("query", "takes"),
    [
        ("x" * 1_001, "at most 1,000 characters"),
        (" ".join(f"w{n}" for n in range(65)), "at most 64 terms"),
        ("x from:2026-02-01 to:2026-01-01", "a from: that is before its to:"),
    ],
)
def test_a_query_that_asks_too_much_costs_no_search(
    agent: Agent, query: str, takes: str
) -> None:
    factories.append(agent, "t-1", "hello")
    assert call(agent, query=query) == f"query takes {takes}."
    assert not counted()
    assert "1 of 1" in call(agent, query='"hello')
