from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.client import Client
from tests.oracles.paging import build_prose

pytestmark = pytest.mark.django_db

T = "/threads/t-1"


def call(arguments: Any, **fields: Any) -> dict[str, Any]:
    function = {"name": "page_fault", "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function, **fields}


@pytest.fixture
async def page(api: Client) -> None:
    content = {"text": build_prose(900)}
    body = {"page_id": "a", "type": "artifact", "modality": "text", "content": content}
    await api.post(f"{T}/pages", {**body, "map": False})


@pytest.mark.parametrize(
    "arguments",
    [{"page_id": "a", "target_level": 1}, '{"page_id":"a","target_level":1}'],
)
@pytest.mark.usefixtures("page")
async def test_call_is_answered_ready_to_hand_back(api: Client, arguments: Any) -> None:
    answer = await api.post(f"{T}/tool-calls", call(arguments, index=0))
    assert answer.status == 200
    assert answer.json["role"] == "tool"
    assert (answer.json["tool_call_id"], answer.json["name"]) == (
        "call_1",
        "page_fault",
    )
    head, _, text = answer.json["content"].partition("\n\n")
    assert head.startswith("page a · artifact · excerpt · ")
    assert head.endswith(" · 2 faults left")
    assert build_prose(900).startswith(text[:100])
    mutations = (await api.get(f"{T}/mutations?by=model")).json["items"]
    assert [item["type"] for item in mutations] == ["fault_in"]


def chat(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "c", "type": "function", "function": function}, "content"


def item(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    text = json.dumps(arguments)
    named = {"id": "fc", "call_id": "c", "name": name, "arguments": text}
    return {"type": "function_call", "status": "completed", **named}, "output"


def use(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    return {"type": "tool_use", "id": "c", "name": name, "input": arguments}, "content"


def build_part(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    called = {"id": "c", "name": name, "args": arguments}
    return {"functionCall": called, "thoughtSignature": "CiQB"}, "response"


SHAPES = {
    chat: {"role": "tool", "tool_call_id": "c"},
    item: {"type": "function_call_output", "call_id": "c"},
    use: {"type": "tool_result", "tool_use_id": "c"},
    build_part: {"id": "c"},
}
CALLS = [
    ("page_fault", {"page_id": "a", "target_level": 1}, "page a ", False),
    ("page_search", {"query": "harbour"}, "nothing was found", False),
    ("page_fault", {"page_id": "b"}, "no page", True),
    ("page_fault", {"page_id": 7}, "page_id: expected a string", True),
    ("page_search", {}, "query: expected words", True),
    ("key_get", {"key": "k"}, "This thread does not allow that.", True),
    ("key_get", {}, "The argument key is missing.", True),
    ("rm", {}, "the tools are page_fault", True),
]


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("each", CALLS)
async def test_call_is_answered_in_its_own_shape(
    api: Client, shape: Any, each: tuple[str, dict[str, Any], str, bool]
) -> None:
    name, arguments, told, failed = each
    sent, place = shape(name, arguments)
    answer = (await api.post(f"{T}/tool-calls", sent)).json
    expected = dict(SHAPES[shape])
    if shape is chat:
        expected["name"] = name
    if shape is use:
        assert answer.keys() == {"role", "content"}
        assert answer["role"] == "user"
        (answer,) = answer["content"]
        assert answer.pop("is_error", False) is failed
    if shape is build_part:
        expected["name"] = name
        assert answer["role"] == "user"
        answer = answer["parts"][0]["functionResponse"]
        (outcome,) = answer["response"]
        assert outcome == ("error" if failed else "output")
        answer["response"] = answer["response"][outcome]
    assert told in answer.pop(place)
    assert answer == expected


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({}, "expected a function call"),
        ({"function": "page_fault"}, "expected a function call"),
        ({"id": 7, "type": "custom"}, "expected a function call"),
        (call(None), "page_id: expected a string"),
        (call("not JSON"), "expected JSON text"),
        (call({"page_id": "a", "target_level": 9}), "expected 0 to 3"),
        (call({"page_id": "\u2028 ü" * 100}), "no page"),
        ({"function": {"name": "rm", "arguments": "{}"}}, "the tools are page_fault"),
    ],
)
async def test_models_mistake_is_told_to_the_model(
    api: Client, sent: dict[str, Any], sentence: str
) -> None:
    answer = await api.post(f"{T}/tool-calls", sent)
    assert answer.status == 200
    assert sentence in answer.json["content"]
    assert "ü" not in answer.json["content"]


@pytest.mark.usefixtures("page")
async def test_model_beyond_its_budget_is_told_what_is_left(api: Client) -> None:
    await api.patch(T, {"config": {"max_faults_per_turn": 1}})
    await api.post(f"{T}/tool-calls", call({"page_id": "a", "target_level": 3}))
    again = call({"page_id": "a"}, id="call_2")
    answer = await api.post(f"{T}/tool-calls", again)
    assert answer.status == 200
    assert "faults_left: 0" in answer.json["content"]


@pytest.mark.usefixtures("page")
async def test_repeated_call_is_charged_once(api: Client) -> None:
    named = [("idempotency-key", "call_1")]
    sent = call({"page_id": "a"})
    first = await api.post(f"{T}/tool-calls", sent, headers=named)
    again = await api.post(f"{T}/tool-calls", sent, headers=named)
    assert again.json == first.json
    assert (await api.get(f"{T}/paging")).json["total"]["faults"] == 1


async def test_tools_are_defined_by_mode_and_form(api: Client) -> None:
    plain = (await api.get("/tools")).json
    named = [tool["function"]["name"] for tool in plain["tools"]]
    assert named == ["page_fault", "page_search"]
    assert not any("strict" in tool["function"] for tool in plain["tools"])
    strict = (await api.get("/tools?strict=true&mode=relaxed")).json
    assert strict["tools"][0]["function"]["strict"] is True
    for search in ("?search=false", "?search=false&strict=true"):
        (only,) = (await api.get(f"/tools{search}")).json["tools"]
        assert only["function"]["name"] == "page_fault"
    assert (await api.get("/tools?mode=passive")).json["tools"] == []
    assert (await api.get("/tools?mode=loud")).code == "value"
    assert (await api.get("/tools?strict=1")).code == "value"
