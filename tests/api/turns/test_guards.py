"""Checks and records of an agent's own tool calls, by their routes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from memoryhub.models import Event, Thread
from tests.api.client import Client
from tests.api.turns.test_turns import item_of

pytestmark = pytest.mark.django_db
T = "/threads/t-1"


async def begin(api: Client, guard: str = "strict", said: str = "hello") -> None:
    await api.put(T, {"config": {"guard": guard}})
    await say(api, said)


async def say(api: Client, text: str, role: str = "user") -> None:
    message = {"role": role, "content": text}
    body = {**item_of("x"), "content": message, "role": role}
    assert (await api.post(f"{T}/slots", body)).status == 201


async def check(api: Client, name: str, arguments: Any) -> dict[str, Any]:
    body = {"name": name, "arguments": arguments}
    answer = await api.post(f"{T}/tool-calls:check", body)
    assert answer.status == 200, answer.json
    found: dict[str, Any] = answer.json
    return found


async def record(api: Client, name: str, arguments: Any, **ending: Any) -> Any:
    body = {"name": name, "arguments": arguments, "outcome": "success", **ending}
    answer = await api.post(f"{T}/tool-calls:record", body)
    assert answer.status == 201, answer.json
    return answer.json["binding"]


async def bindings(api: Client, query: str = "") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await api.get(f"{T}/bindings{query}")).json["items"]
    return items


async def test_guard_that_is_off_allows_and_records(api: Client) -> None:
    await say(api, "hello")
    found = await check(api, "fly", '{"n": 5, "to": "$v9"}')
    assert (found["verdict"], found["arguments"]) == ("allow", {"n": 5, "to": "$v9"})
    bound = await record(api, "fly", {"n": 5}, result="7")
    assert bound == "v1"


async def test_results_are_bound_until_the_next_message(api: Client) -> None:
    await begin(api, said="2 seats, please")
    assert (await check(api, "fare", {"seats": 2}))["verdict"] == "allow"
    await record(api, "fare", {"seats": 2}, result=1.10)
    await say(api, "So total = 1.1 and share = 0.25.", "assistant")
    found = await check(api, "pay", '{"sum": "$total", "by": "${share}", "n": "$v1!"}')
    assert found["verdict"] == "allow"
    assert found["arguments"] == {"sum": 1.1, "by": 0.25, "n": "1.1!"}
    found = await check(api, "pay", {"sum": 1.1})
    assert (found["verdict"], found["repaired"]) == ("repair", {"/sum": "$v1"})
    await record(api, "pay", {"sum": "$v1"}, outcome="failure", error="no card")
    one, other = await bindings(api)
    assert (one["id"], one["value"], one["aliases"]) == ("v1", "1.1", ["total"])
    assert (one["tool"], len(one["used_in"])) == ("fare", 1)
    assert (other["id"], other["value"], other["seq"]) == ("share", "0.25", None)
    seq = (await api.get(f"{T}/events?limit=200")).json["items"][-1]["seq"]
    await say(api, "And now 3 seats.")
    assert await bindings(api) == []
    assert len(await bindings(api, f"?at_seq={seq}")) == 2
    found = await check(api, "pay", {"sum": "$v1", "n": 2})
    assert (found["reason"], found["next_step"]) == ("missing_refs", "compute_missing")
    assert (await check(api, "fare", {"seats": 3}))["verdict"] == "allow"


async def test_equal_call_is_answered_from_the_cache_in_its_turn(api: Client) -> None:
    await begin(api, "smooth")
    await api.post(f"{T}/turns", {})
    await record(api, "db.Find", {"a": 1, "b": "x"}, result={"rows": [1]})
    await record(api, "find", {"a": 2}, outcome="partial", result=3)
    found = await check(api, "db.Find", {"b": "x", "a": 1})
    assert found["cached"]["result"] == {"rows": [1]}
    assert (await check(api, "find", {"a": 2}))["cached"] is None
    assert (await check(api, "other.find", {"b": "x", "a": 1}))["cached"] is None
    await api.post(f"{T}/turns", {})
    assert (await check(api, "db.Find", {"b": "x", "a": 1}))["cached"] is None
    assert [each["id"] for each in await bindings(api)] == ["v1", "v2"]


async def test_recorded_calls_are_counted(api: Client) -> None:
    await begin(api)
    for _ in range(3):
        await record(api, "fly", {}, outcome="timeout")
    assert (await check(api, "a.FLY", {}))["reason"] == "per_tool_limit"
    for _ in range(7):
        await record(api, "sqrt", {"x": "$v1"}, outcome="cancelled")
    found = await check(api, "sqrt", {})
    assert (found["reason"], found["next_step"]) == ("budget_exhausted", "ask_user")
    assert (await check(api, "search", {}))["verdict"] == "allow"


async def test_blocked_call_is_recorded_but_not_counted(api: Client) -> None:
    await begin(api)
    found = await check(api, "fly", {"n": 5})
    judged = {name: found[name] for name in ("verdict", "reason")}
    assert judged == {"verdict": "block", "reason": "ungrounded_args"}
    for _ in range(12):
        assert await record(api, "fly", {}, outcome="cancelled", **judged) is None
    event = (await api.get(f"{T}/events?limit=200")).json["items"][-1]
    assert event["body"] | judged == event["body"]
    assert (await check(api, "fly", {}))["verdict"] == "allow"


async def test_check_writes_nothing_and_asks_a_constant_number_of_queries(
    api: Client,
) -> None:
    await begin(api)
    counts = []
    for many in (1, 8):
        for n in range(many):
            await record(api, f"t{n}", {"n": n}, result=n + 0.5)
        head = Event.objects.count()
        with CaptureQueriesContext(connections["default"]) as asked:
            await check(api, "pay", {"sum": "$v1"})
        assert Event.objects.count() == head
        # The key is looked up anew when a second has passed.
        own = [each for each in asked if "memoryhub_apikey" not in each["sql"]]
        counts.append(len(own))
    assert counts[0] == counts[1]


async def test_fork_has_bindings_and_a_guard_of_its_own(api: Client) -> None:
    await begin(api)
    await record(api, "fare", {}, result=5)
    fork = {"thread": "t-2", "config": {"guard": "strict"}}
    await api.post(f"{T}:fork", fork)
    body = {"name": "pay", "arguments": {"sum": "$v1", "n": 6}}
    found = (await api.post("/threads/t-2/tool-calls:check", body)).json
    assert (found["arguments"]["sum"], found["reason"]) == (5, "ungrounded_args")
    await api.patch("/threads/t-2", {"config": {"guard": None}})
    assert (await api.get("/threads/t-2")).json["config"]["guard"] == "off"


async def test_repeated_record_has_one_effect_and_is_sealed(api: Client) -> None:
    body = {"name": "fare", "arguments": {"for": "Ann"}, "outcome": "success"}
    headers = [("idempotency-key", "once")]
    sent = [
        await api.post(f"{T}/tool-calls:record", body, headers=headers) for _ in "ab"
    ]
    assert sent[0].json == sent[1].json
    event = Event.objects.get(type="call.recorded")
    assert "fare" not in json.dumps(event.body)
    assert "Ann" not in json.dumps(event.body)
    assert b"Ann" not in bytes(event.payload or b"")


@pytest.mark.parametrize(
    ("change", "loc", "code"),
    [
        ({"name": ""}, ["name"], "value"),
        ({"name": "a."}, ["name"], "value"),
        ({"name": "x" * 257}, ["name"], "value"),
        ({"name": 7}, ["name"], "type"),
        ({"arguments": "[1]"}, ["arguments"], "value"),
        ({"arguments": '{"a":1,"a":2}'}, ["arguments"], "value"),
        ({"arguments": '{"a":NaN}'}, ["arguments"], "value"),
        ({"arguments": '{"a":"\\ud800"}'}, ["arguments"], "value"),
        ({"arguments": None}, ["arguments"], "value"),
        ({"outcome": "won"}, ["outcome"], "value"),
        ({"verdict": "block"}, ["outcome"], "value"),
        ({"reason": "mood"}, ["reason"], "value"),
        ({"error": "x", "result": None}, ["error"], "value"),
        ({"duration_ms": -1}, ["duration_ms"], "value"),
        ({"duration_ms": 1.5}, ["duration_ms"], "type"),
    ],
)
async def test_record_refuses_bad_fields(
    api: Client, change: dict[str, Any], loc: list[str], code: str
) -> None:
    body = {"name": "fare", "arguments": {}, "outcome": "success", **change}
    answer = await api.post(f"{T}/tool-calls:record", body)
    assert (answer.status, answer.json["errors"][0]["code"]) == (422, code)
    assert answer.json["errors"][0]["loc"] == loc
    assert not Thread.objects.exists()


async def test_references_of_a_call_bring_in_a_mebibyte_at_most(api: Client) -> None:
    await begin(api, "smooth")
    await record(api, "read", {}, result="x" * 900_000)
    found = await check(api, "send", {"text": "$v1"})
    assert len(found["arguments"]["text"]) == 900_000
    body = {"name": "send", "arguments": {"text": ["$v1", "$v1"]}}
    answer = await api.post(f"{T}/tool-calls:check", body)
    assert (answer.status, answer.json["code"]) == (413, "value_too_large")


async def test_large_numbers_and_odd_texts_are_checked(api: Client) -> None:
    await begin(api, "smooth", said=f"{'9' * 400} and 1e999")
    odd = {"a": 10**1000, "b": "9" * 5_000, "c": 1e-320, "$v1": "$", "d": "${v1"}
    body = json.dumps({"name": "\u202efly", "arguments": odd}).encode()
    answer = await api.post(f"{T}/tool-calls:check", body)
    found = json.loads(answer.body)
    assert (answer.status, found["verdict"]) == (200, "warn")
    assert found["arguments"] == odd
