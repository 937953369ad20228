"""Messages that were taken back: gone from requests, lists and searches, not erased."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.models import Slot
from memoryhub.queries.verify import verification
from memoryhub.services import rebuild
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from tests.api.client import Client
from tests.cast.factories import append, get_thread, make_thread, run

pytestmark = pytest.mark.django_db


async def list_contents(api: Client, query: str = "", thread: str = "t-1") -> list[Any]:
    answer = await api.get(f"/threads/{thread}/slots{query}")
    return [item["content"] for item in answer.json["items"]]


async def test_struck_message_leaves_requests_lists_and_searches(api: Client) -> None:
    await api.append("t-1", "zebra one", "zebra two", "zebra three")
    struck = await api.post("/threads/t-1/slots:strike", {"indexes": [1]})
    assert struck.json == {"items": [{"index": 1, "seq": 5}]}
    assert await list_contents(api) == ["zebra one", "zebra three"]
    newest = (await api.get("/threads/t-1/messages")).json["items"]
    assert [item["index"] for item in newest] == [0, 2]
    for target in ("/threads/t-1/search", "/threads/t-1/recall"):
        found = await api.post(target, {"query": "zebra", "limit": 9})
        assert "two" not in str(found.json)
        assert "three" in str(found.json)
    turn = await api.post("/threads/t-1/turns", {"items": []})
    assert "zebra two" not in str(turn.json)
    fault = await api.post("/threads/t-1/faults", {"page_id": "slot-1"})
    assert fault.status in (404, 410)


async def test_struck_message_stays_for_the_past(api: Client) -> None:
    await api.append("t-1", "zebra one", "zebra two")
    await api.post("/threads/t-1:fork", {"thread": "before"})
    await api.post("/threads/t-1/slots:strike", {"indexes": [1]})
    await api.post("/threads/t-1:fork", {"thread": "after"})
    both = ["zebra one", "zebra two"]
    assert await list_contents(api, "?at_seq=3") == both
    assert await list_contents(api, "?struck=true") == both
    read = (await api.get("/threads/t-1/slots/1")).json
    assert (read["content"], read["struck"]) == ("zebra two", True)
    assert await list_contents(api, thread="before") == both
    assert await list_contents(api, thread="after") == both[:1]
    at = {"query": "zebra", "at_seq": 3}
    then = await api.post("/threads/t-1/search", at)
    assert len(then.json["items"]) == 2


async def test_strike_of_a_struck_message_changes_nothing(api: Client) -> None:
    await api.append("t-1", "one", "two")
    both = [{"indexes": [1]}] * 2
    answers = await asyncio.gather(
        *(api.post("/threads/t-1/slots:strike", body) for body in both)
    )
    assert sorted(len(each.json["items"]) for each in answers) == [0, 1]


async def test_strike_refuses_what_is_not_the_threads_own(api: Client) -> None:
    await api.append("t-1", "one")
    await api.post("/threads/t-1:fork", {"thread": "f"})
    strike = "/threads/{}/slots:strike"
    inherited = await api.post(strike.format("f"), {"indexes": [0]})
    assert (inherited.status, inherited.code) == (409, "slot_inherited")
    assert (await api.post(strike.format("t-1"), {"indexes": [1]})).status == 404
    for bad in ([], [-1], ["0"], [0] * 201):
        refused = await api.post(strike.format("t-1"), {"indexes": bad})
        assert refused.status == 422
    assert await list_contents(api) == ["one"]


def test_strikes_are_rebuilt_from_the_journal(agent: Agent) -> None:
    make_thread(agent)
    append(agent, "t-1", *(str(n) for n in range(6)))
    run(slots.strike(agent=agent, thread="t-1", indexes=[4, 2]))
    thread = get_thread(agent, "t-1")
    rows = dict(thread.slots.values_list("index", "struck_seq"))
    assert [rows[n] for n in (2, 4)] == [8, 9]
    rebuild.rebuild(thread)
    assert dict(thread.slots.values_list("index", "struck_seq")) == rows
    Slot.objects.filter(thread=thread, index=4).update(struck_seq=None)
    found = verification.verify(get_thread(agent, "t-1"))
    assert found is not None
    assert found.what == "slot_rows"
    Slot.objects.filter(thread=thread, index=4).update(struck_seq=9)


def test_strike_takes_as_many_statements_for_many(agent: Agent) -> None:
    make_thread(agent)
    append(agent, "t-1", *(str(n) for n in range(40)))
    counts = []
    for indexes in ([0], range(1, 40)):
        with CaptureQueriesContext(connection) as captured:
            run(slots.strike(agent=agent, thread="t-1", indexes=indexes))
        counts.append(len(captured))
    assert counts[0] == counts[1]
