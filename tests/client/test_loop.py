"""The loop of both clients against a real server, with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from memoryhub_client import AsyncClient, AsyncLoop, Client, Loop, chat, slots
from memoryhub_client.answers import Message, ModelRequest
from tests.harness.instances import Server

ASKED: Message = {"role": "user", "content": "Where is my parcel?"}
SAID: Message = {"role": "assistant", "content": "In Kraków."}


def call(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call-{name}", "type": "function", "function": function}


CALLS: Any = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        call("track", '{"parcel": 7}'),
        call("page_search", '{"query": "parcel"}'),
        call("nothing", "{}"),
        call("note", "[]"),
    ],
}


class Model:
    """Calls tools once, then answers."""

    def __init__(self) -> None:
        self.script: list[Message] = [CALLS, SAID]
        self.asked = list[ModelRequest]()

    def __call__(self, request: ModelRequest) -> Message:
        self.asked.append(request)
        return self.script.pop(0)

    async def awaited(self, request: ModelRequest) -> Message:
        return self(request)


def track(parcel: int) -> Any:
    return {"parcel": parcel, "at": "Kraków"}


async def note(**_: Any) -> str:
    raise AssertionError


TOOLS: dict[str, Callable[..., Any]] = {"track": track, "note": note}


def run(kind: str, url: str, key: str, model: Model) -> Message:
    if kind == "sync":
        with Client(url, key) as hub:
            return Loop(hub, "talk", model, TOOLS).run(ASKED)

    async def awaited() -> Message:
        async with AsyncClient(url, key) as hub:
            return await AsyncLoop(hub, "talk", model.awaited, TOOLS).run(ASKED)

    return asyncio.run(awaited())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_calls_go_where_they_belong_and_all_is_kept(
    kind: str, served: Server, key: str
) -> None:
    model = Model()
    assert run(kind, served.url, key, model) == SAID
    with Client(served.url, key) as hub:
        kept = [each["content"] for each in hub.each(slots.list_all("talk"))]
    assert (kept[:2], kept[-1]) == ([ASKED, CALLS], SAID)
    tracked, found, unknown, refused = kept[2:-1]
    assert json.loads(tracked["content"]) == track(7)
    assert found["tool_call_id"] == "call-page_search"
    assert "can't be followed" in unknown["content"]
    assert "no JSON object" in refused["content"]
    assert len(model.asked) == 2
    assert chat(SAID)["type"] == "chat.assistant"
