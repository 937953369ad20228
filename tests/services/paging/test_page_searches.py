"""Page searches of a model: hits, answers and counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.journal.log import thread_terms
from memoryhub.models.events import Event
from memoryhub.queries.search.searching import SearchRequest, search_thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_faults
from memoryhub.services.threads import slots
from tests.cast import factories
from tests.services.acts import fork, paging
from tests.services.turns.test_turns import begin

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    thread_terms.indexes.clear()


NOTHING = "nothing was found beside this exchange · 2 searches left"


def call(agent: Agent, thread: str = "t-1", **arguments: Any) -> str:
    function = {"name": "page_search", "arguments": arguments}
    sent = {"id": "call_1", "type": "function", "function": function}
    message = factories.run(
        page_faults.answer_call(agent=agent, thread=thread, sent=sent)
    )
    assert (message["role"], message["name"]) == ("tool", "page_search")
    return str(message["content"])


def list_searches() -> list[str]:
    rows = Event.objects.filter(type="pages.searched").order_by("seq")
    return [*rows.values_list("body", flat=True)]


def test_model_finds_pages_by_their_words(agent: Agent) -> None:
    said = (*(f"filler {n}" for n in range(9)), "the blue lamp", "Which one?")
    factories.append(agent, "t-1", *said)
    head, _, hit = call(agent, query="lamp").split("\n")
    assert head == "1 of 1 pages · 2 searches left"
    assert hit.startswith("slot-9 · user · ")
    assert hit.endswith(": the blue lamp")
    (body,) = list_searches()
    assert '"results":1' in body
    assert "lamp" not in body


def test_page_search_by_modality_finds_pages_of_that_kind(agent: Agent) -> None:
    factories.append(agent, "t-1", *(f"the blue lamp {n}" for n in range(30)))
    caption = {"caption": "A lamp in a room of books"}
    factories.make_page(agent, "photo", modality="image", content=caption)
    factories.append(agent, "t-1", {"lamp": 7}, "Which one?")
    head, _, hit = call(agent, query="lamp", modality="image").split("\n")
    assert head == "1 of 1 pages · 2 searches left"
    assert hit.startswith("photo · ")
    assert "slot-30 · " in call(agent, query="lamp", modality="structured")
    assert call(agent, query="lamp", modality="audio").startswith("nothing was found")


def test_exchange_has_three_page_searches(agent: Agent) -> None:
    factories.append(agent, "t-1", "the blue lamp", "Which one?")
    for left in (2, 1, 0):
        assert f"{left} searches left" in call(agent, query="lamp")
    assert call(agent, query="lamp") == "No searches are left in this exchange."
    assert len(list_searches()) == 3
    factories.append(agent, "t-1", "again")
    assert "2 searches left" in call(agent, query="lamp")


def test_thread_without_the_search_tool_offers_and_answers_none(agent: Agent) -> None:
    factories.make_thread(agent, search_tool=False)
    begun = begin(agent, "Where is the lamp?")
    offered = json.loads(begun.request)["tools"]
    assert [each["function"]["name"] for each in offered] == ["page_fault"]
    assert call(agent, query="lamp") == "This thread does not allow searches."
    assert not list_searches()


def test_search_that_finds_nothing_says_so_and_counts(agent: Agent) -> None:
    factories.append(agent, "t-1", "the blue lamp")
    assert call(agent, query="piano") == NOTHING
    assert len(list_searches()) == 1


def test_search_leaves_out_the_running_exchange(agent: Agent) -> None:
    """Leave out the question and later messages shown whole, but no evicted result."""
    factories.make_thread(agent, budget_tokens=4_000, reserved_tokens=800)
    factories.append(agent, "t-1", "The gate code is 4711.", "Which gate code is it?")
    rows = "".join(f" row {n}," for n in range(200))
    results = [f"Result {n} of the gate code:{rows}" for n in range(6)]
    said = [factories.make_slot(each, role="tool") for each in results]
    factories.run(slots.append(agent=agent, thread="t-1", slots=said))
    whole = {name for name, frame in paging(agent).frames.items() if not frame.level}
    assert {"slot-1", "slot-7"} <= whole
    told = call(agent, query="gate code", limit=10).split("\n")[2:]
    found = {line.partition(" · ")[0] for line in told}
    assert found == {f"slot-{n}" for n in range(8)} - (whole - {"slot-0"})
    assert {"slot-0", "slot-2"} <= found


def test_search_finds_nothing_where_only_the_question_matches(agent: Agent) -> None:
    factories.append(agent, "t-1", "hello", "Where is the piano?")
    assert call(agent, query="piano") == NOTHING
    request = SearchRequest.parse("piano")
    assert search_thread(factories.get_thread(agent, "t-1"), request).total == 1


def test_search_leaves_out_the_exchange_that_a_fork_continues(agent: Agent) -> None:
    factories.append(agent, "t-1", "the blue lamp", "Which lamp was it?")
    fork(agent, "t-1", "t-2")
    assert "1 of 1" in call(agent, query="lamp", thread="t-2")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({}, "query: expected words"),
        ({"query": " "}, "query: expected words"),
        ({"query": "x", "limit": 0}, "limit: expected 1 to 10"),
        ({"query": "x", "limit": 11}, "limit: expected 1 to 10"),
        (
            {"query": "x", "modality": ["text"]},
            "modality: expected text, image, audio, video, structured",
        ),
        ({"query": "\ud800"}, "arguments: expected JSON text"),
        (
            {"query": "x", "page_id": "y"},
            "unknown field; there are query, modality and limit",
        ),
    ],
)
def test_invalid_page_search_is_answered_by_a_sentence(
    agent: Agent, arguments: dict[str, Any], answer: str
) -> None:
    factories.append(agent, "t-1", "hello")
    assert call(agent, **arguments) == f"This call can't be followed: {answer}."
    assert not list_searches()


@pytest.mark.parametrize(
    ("query", "takes"),
    [
        ("x" * 1_001, "at most 1,000 characters"),
        (" ".join(f"w{n}" for n in range(65)), "at most 64 terms"),
        ("x from:2026-02-01 to:2026-01-01", "a from: that is before its to:"),
    ],
)
def test_query_that_asks_too_much_costs_no_search(
    agent: Agent, query: str, takes: str
) -> None:
    factories.append(agent, "t-1", "hello", "And now?")
    assert call(agent, query=query) == f"query takes {takes}."
    assert not list_searches()
    assert "1 of 1" in call(agent, query='"hello')
