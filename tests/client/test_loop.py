"""The loop of both clients against a real server, with a scripted model of each API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memoryhub.kernel.messages.message import Vendor
from memoryhub_client import AsyncClient, AsyncLoop, Client, Loop, slots, threads, tools
from memoryhub_client.answers import ModelMessage, ModelRequest
from tests.harness.instances import Server
from tests.kernel.messages.vendors import require_types
from tests.validators import require_request

APIS: list[Vendor] = ["chat", "responses", "anthropic", "gemini"]
ASKED: ModelMessage = {"role": "user", "content": "Where is my parcel?"}
SAID = "In Kraków."
SIGNATURE = "CiQBjz1rX0il"
#: Tool calls of the model, with the expected text and failure of each.
CALLS: dict[str, tuple[Any, str, bool]] = {
    "track": ({"parcel": 7}, '{"parcel": 7, "at": "Krak\\u00f3w"}', False),
    "ring_up": ({"parcel": 7}, "No answer in time.", True),
    "wait": ({}, "TimeoutError", True),
    "weigh": ({}, "Object of type set is not JSON serializable", True),
    "spell": ({}, "ł�?", False),
    "note": ([], "The arguments are no JSON object.", True),
    "track_all": ({"day": 1}, "track_all() got an unexpected keyword", True),
    "page_search": ({"query": "parcel"}, "", False),
    "nothing": ({}, "can't be followed", True),
}
OF_THE_HUB = {"page_search", "nothing"}


class StopError(BaseException):
    """Interruption that is no Exception, so that nobody catches it."""


def track(parcel: int) -> Any:
    return {"parcel": parcel, "at": "Kraków"}


def track_all() -> str:
    raise AssertionError


def ring_up(parcel: int) -> str:
    raise TimeoutError("No answer in time.")


def wait() -> str:
    raise TimeoutError


def weigh() -> Any:
    return {7}


def spell() -> str:
    return "ł\0\ud800"


def note(**_: Any) -> str:
    raise AssertionError


def read_log() -> str:
    return f"First line.{'ł' * 700_000}Last line."


def read_ledger() -> str:
    return f"First sum.{'7' * 700_000}Last sum."


def stop() -> str:
    raise StopError


def as_coroutine(tool: Callable[..., Any]) -> Callable[..., Any]:
    async def use(**arguments: Any) -> Any:
        return tool(**arguments)

    return use


OWN: list[Callable[..., Any]] = [
    track,
    track_all,
    ring_up,
    wait,
    weigh,
    spell,
    note,
    stop,
]
LONG: list[Callable[..., Any]] = [read_log, read_ledger]


class Model:
    """Model that calls tools once, then answers; refuses what its API would refuse."""

    def __init__(self, api: Vendor, *calls: str) -> None:
        self.api = api
        self.script = [build_calls(api, calls), build_answer(api)]
        self.asked = list[ModelRequest]()

    def __call__(self, request: ModelRequest) -> ModelMessage:
        self.asked.append(request)
        require_request(self.api, {**request})
        require_types(self.api, {**request})
        return self.script[len(self.asked) - 1]

    async def awaited(self, request: ModelRequest) -> ModelMessage:
        return self(request)


def build_calls(api: Vendor, names: tuple[str, ...]) -> ModelMessage:
    """Build the assistant's message that calls these tools."""
    calls = [(name, CALLS[name][0] if name in CALLS else {}) for name in names]
    return build_message(api, {f"c-{name}": (name, given) for name, given in calls})


def build_message(api: Vendor, calls: dict[str, tuple[str, Any]]) -> ModelMessage:
    """Build the assistant's message of these calls: name and arguments, by id."""
    built: list[Any] = []
    for call, (name, given) in calls.items():
        text = {"name": name, "arguments": json.dumps(given)}
        if api == "chat":
            built.append({"id": call, "type": "function", "function": text})
        elif api == "responses":
            item = {"type": "function_call", "id": f"f{call}", "status": "completed"}
            built.append({**item, "call_id": call, **text})
        elif api == "gemini":
            function = {"id": call, "name": name, "args": given}
            built.append({"functionCall": function})
        else:
            use = {"type": "tool_use", "id": call, "name": name, "input": given}
            built.append(use)
    if api == "chat":
        return {"role": "assistant", "content": None, "tool_calls": built}
    if api == "gemini":
        built[0]["thoughtSignature"] = SIGNATURE
        return {"role": "model", "parts": built}
    return {"role": "assistant", "content": built}


def build_answer(api: Vendor) -> ModelMessage:
    said: Any = SAID
    if api == "gemini":
        return {"role": "model", "parts": [{"text": SAID}]}
    if api == "responses":
        part = {"type": "output_text", "text": SAID, "annotations": []}
        message = {"type": "message", "id": "msg-1", "status": "completed"}
        said = [{**message, "role": "assistant", "content": [part]}]
    elif api == "anthropic":
        said = [{"type": "text", "text": SAID}]
    return {"role": "assistant", "content": said}


def list_results(api: Vendor, kept: list[Any]) -> Iterator[tuple[str, str, bool]]:
    """List call, text and failure of each result, stored as the API has them."""
    if api == "gemini":
        (message,) = kept
        assert message["role"] == "user"
        for part in message["parts"]:
            told = part["functionResponse"]
            ((outcome, text),) = told["response"].items()
            yield told["id"], text, outcome == "error"
        return
    if api == "anthropic":
        (message,) = kept
        assert message["role"] == "user"
        for block in message["content"]:
            assert block["type"] == "tool_result"
            failed = block.get("is_error", False)
            yield block["tool_use_id"], block["content"], failed
        return
    for message in kept:
        assert message["role"] == "tool"
        told = message
        call, text = "tool_call_id", "content"
        if api == "responses":
            (told,) = message["content"]
            assert told["type"] == "function_call_output"
            call, text = "call_id", "output"
        yield told[call], told[text], told.get("is_error", False)


def run(kind: str, url: str, key: str, model: Model) -> ModelMessage:
    functions = {each.__name__: each for each in (*OWN, *LONG)}
    with Client(url, key) as hub:
        hub.send(threads.put("talk", config={"format": model.api}))
        hub.send(tools.set_own("talk", [{"name": name} for name in functions]))
        if kind == "sync":
            return Loop(hub, "talk", model, functions).run(ASKED)

    # Plain and async tools, each with one that raises.
    functions |= {name: as_coroutine(functions[name]) for name in ("track", "ring_up")}

    async def awaited() -> ModelMessage:
        async with AsyncClient(url, key) as hub:
            return await AsyncLoop(hub, "talk", model.awaited, functions).run(ASKED)

    return asyncio.run(awaited())


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("api", APIS)
def test_loop_stores_each_call_with_its_result_or_failure(
    api: Vendor, kind: str, served: Server, key: str
) -> None:
    model = Model(api, *CALLS)
    called, said = model.script
    assert run(kind, served.url, key, model) == said
    with Client(served.url, key) as hub:
        kept = [each["content"] for each in hub.each(slots.list_all("talk"))]
    assert (kept[:2], kept[-1]) == ([ASKED, called], said)
    results = [*list_results(api, kept[2:-1])]
    assert [call for call, _, _ in results] == [f"c-{name}" for name in CALLS]
    for (name, (_, told, fails)), (_, text, failed) in zip(
        CALLS.items(), results, strict=True
    ):
        assert told in text, name
        # Refusals of the hub are marked in formats that have a field for failures.
        marked = api in ("anthropic", "gemini")
        assert failed == (fails and (marked or name not in OF_THE_HUB))
    # The model saw the whole result; refusals are judged at the next request.
    assert len(model.asked) == 2
    shown = json.dumps(model.asked[1], ensure_ascii=False)
    assert (SIGNATURE in shown) == (api == "gemini")
    assert all(
        json.dumps(text, ensure_ascii=False)[1:-1] in shown for _, text, _ in results
    )


@pytest.mark.parametrize("api", APIS)
def test_loop_keeps_both_ends_of_results_that_are_too_long_to_store(
    api: Vendor, served: Server, key: str
) -> None:
    model = Model(api, "read_log", "track_all", "read_ledger")
    assert run("sync", served.url, key, model) == model.script[1]
    with Client(served.url, key) as hub:
        kept = [each["content"] for each in hub.each(slots.list_all("talk"))]
    log, _, ledger = (text for _, text, _ in list_results(api, kept[2:-1]))
    assert log.startswith("First line.ł")
    assert "characters left out" in log
    assert log.endswith("łLast line.")
    assert ledger.startswith("First sum.")
    assert ledger.endswith("Last sum.")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_loop_does_not_catch_an_interruption(
    kind: str, served: Server, key: str
) -> None:
    with pytest.raises(StopError):
        run(kind, served.url, key, Model("chat", "stop"))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_loop_raises_what_its_model_raises(kind: str, served: Server, key: str) -> None:
    model = Model("chat")
    model.script = []
    with pytest.raises(IndexError):
        run(kind, served.url, key, model)
