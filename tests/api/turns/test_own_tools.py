"""An agent's own tools: counted, recorded, merged behind ours; by their route."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.models import Event
from tests.api.client import Client
from tests.api.turns.test_turns import item_of

pytestmark = pytest.mark.django_db
OURS = ["page_fault", "page_search"]
T = "/threads/t-1"
LOOK_UP: dict[str, Any] = {
    "name": "look_up",
    "description": "Look up a flight.",
    "parameters": {"type": "object", "properties": {"flight": {"type": "string"}}},
}
BARE = {"name": "stop"}


def list_tool_names(request: dict[str, Any]) -> list[str]:
    functions = (tool.get("function", tool) for tool in request.get("tools", ()))
    return [function["name"] for function in functions]


async def usable_of(api: Client) -> int:
    usable: int = (await api.get(f"{T}/working-set")).json["budget"]["usable_tokens"]
    return usable


async def test_own_tools_are_counted_and_recorded(api: Client) -> None:
    await api.put(T, {})
    usable = await usable_of(api)
    set_ = await api.put(f"{T}/tools", {"items": [LOOK_UP, BARE]})
    assert set_.status == 200
    assert [each["name"] for each in set_.json["items"]] == ["look_up", "stop"]
    taken = set_.json["tokens"]
    assert 40 < taken < 120
    assert await usable_of(api) == usable - taken
    begun = (await api.post(f"{T}/turns", {"items": [item_of("hello")]})).json
    assert list_tool_names(begun["request"]) == [*OURS, "look_up", "stop"]
    events = (await api.get(f"{T}/events")).json["items"]
    (packed,) = (each for each in events if each["type"] == "turn.packed")
    assert packed["body"]["own_tools"] == {"seq": set_.json["seq"]}
    # Others now; what was sent is put together as it was.
    await api.put(f"{T}/tools", {"items": []})
    assert await usable_of(api) == usable
    later = (await api.post(f"{T}/turns", {"items": [item_of("again")]})).json
    assert list_tool_names(later["request"]) == OURS
    again = (await api.get(f"{T}/turns/1/context")).json
    assert (again["verified"], again["request"]) == (True, begun["request"])


async def test_same_tools_are_set_once(api: Client) -> None:
    turn = {"items": [item_of("hello")], "tools": [LOOK_UP]}
    first = (await api.post(f"{T}/turns", turn)).json
    await api.post(f"{T}/turns", turn)
    same = await api.put(f"{T}/tools", {"items": [LOOK_UP]})
    assert Event.objects.filter(type="tools.set").count() == 1
    assert list_tool_names(first["request"]) == [*OURS, "look_up"]
    assert (await api.get(f"{T}/tools")).json == same.json
    assert (await api.get(f"{T}/tools?at_seq={same.json['seq'] - 1}")).json == {
        "items": [],
        "seq": None,
        "tokens": 0,
    }


@pytest.mark.parametrize("shape", ["chat", "responses", "anthropic", "gemini"])
async def test_own_tools_are_sent_in_the_shape_of_each_api(
    api: Client, shape: str
) -> None:
    await api.put(T, {"config": {"format": shape, "mode": "passive"}})
    turn = {"items": [item_of("hello")], "tools": [LOOK_UP]}
    (tool,) = (await api.post(f"{T}/turns", turn)).json["request"]["tools"]
    assert (
        tool
        == {
            "chat": {"type": "function", "function": LOOK_UP},
            "responses": {"type": "function", "strict": False, **LOOK_UP},
            "anthropic": {
                "name": "look_up",
                "description": LOOK_UP["description"],
                "input_schema": LOOK_UP["parameters"],
            },
            "gemini": {
                "functionDeclarations": [
                    {
                        "name": "look_up",
                        "description": LOOK_UP["description"],
                        "parametersJsonSchema": LOOK_UP["parameters"],
                    }
                ]
            },
        }[shape]
    )


async def test_fork_inherits_own_tools(api: Client) -> None:
    await api.post(f"{T}/turns", {"items": [item_of("hello")], "tools": [LOOK_UP]})
    await api.post(f"{T}:fork", {"thread": "t-2"})
    fork = (await api.post("/threads/t-2/turns", {"items": [item_of("again")]})).json
    assert list_tool_names(fork["request"]) == [*OURS, "look_up"]
    again = (await api.get("/threads/t-2/turns/2/context")).json
    assert again["verified"] is True


@pytest.mark.parametrize(
    ("items", "loc"),
    [
        ([{"name": "page_fault"}], ["body", "items", 0, "name"]),
        ([{"name": "a b"}], ["body", "items", 0, "name"]),
        ([{"name": ""}], ["body", "items", 0, "name"]),
        ([BARE, BARE], ["body", "items"]),
        ([{"name": f"t{n}"} for n in range(129)], ["body", "items"]),
        ([{"name": "a", "parameters": {"x": "y" * 66_000}}], ["body", "items"]),
        ([{"name": "a", "parameters": []}], ["body", "items", 0, "parameters"]),
        ([{"name": "a", "odd": 1}], ["body", "items", 0, 1]),
    ],
)
async def test_tools_that_no_server_takes_are_refused(
    api: Client, items: list[Any], loc: list[Any]
) -> None:
    await api.append("t-1", "hello")
    before = Event.objects.count()
    refused = await api.put(f"{T}/tools", {"items": items})
    assert refused.status == 422
    assert refused.json["errors"][0]["loc"] == loc[1:]
    assert Event.objects.count() == before


async def test_tools_that_leave_no_room_are_refused(api: Client) -> None:
    await api.put(T, {"config": {"budget_tokens": 2_000, "reserved_tokens": 800}})
    large = {**LOOK_UP, "description": "word " * 800}
    refused = await api.put(f"{T}/tools", {"items": [large]})
    assert (refused.status, refused.code) == (409, "no_room")
    assert (await api.get(f"{T}/tools")).json["items"] == []


async def test_own_tools_push_out_pages_without_room(api: Client) -> None:
    await api.put(T, {"config": {"budget_tokens": 2_000, "reserved_tokens": 800}})
    for n in range(12):
        await api.append("t-1", {"role": "user", "content": f"{n} " + "word " * 80})
    large = {**LOOK_UP, "description": "word " * 400}
    begun = await api.post(f"{T}/turns", {"items": [item_of("x")], "tools": [large]})
    assert begun.json["tokens"] <= 2_000
    budget = (await api.get(f"{T}/working-set")).json["budget"]
    assert budget["used_tokens"] <= budget["usable_tokens"] < 800
    assert "look_up" in json.dumps(begun.json["request"])
