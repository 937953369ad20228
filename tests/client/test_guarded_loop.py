"""Loops on a thread with a guard: blocks, repairs, references and cached results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memoryhub.kernel.messages.message import Vendor
from memoryhub_client import (
    AsyncClient,
    AsyncLoop,
    Client,
    Loop,
    events,
    slots,
    threads,
    tools,
)
from memoryhub_client.answers import ModelMessage
from tests.client.test_loop import (
    APIS,
    Model,
    build_answer,
    build_message,
    list_results,
)
from tests.harness.instances import Server

SAID: ModelMessage = {"role": "user", "content": "Pay for 2 seats."}
#: Calls of the model by turn and id, with the beginning of each result.
TURNS: list[dict[str, tuple[str, dict[str, Any], str]]] = [
    {"a": ("pay", {"sum": 999}, "Blocked: A number in the arguments is neither ")},
    {
        "b": ("fare", {"seats": 2}, "318.5\nLater calls can use this result as $v1."),
        "c": ("fare", {"seats": 2}, "318.5"),
    },
    {
        "d": ("pay", {"sum": 318.5}, "Paid 318.5\nWrite $v1 instead of the number "),
        "e": ("pay", {"sum": "$v1"}, "Paid 318.5"),
    },
    {"f": ("pay", {"sum": "$v1"}, "no card")},
    {"g": ("pay", {"sum": "$v1"}, "Paid 318.5\nWarning: This tool has reached its ")},
]
#: Arguments with which the tools ran.
RAN = [("fare", 2), ("pay", 318.5), ("pay", 318.5), ("pay", 318.5)]


def run(
    kind: str, url: str, key: str, model: Model, guard: str
) -> list[tuple[str, float]]:
    """Run a loop with this guard; return the calls of its tools."""
    ran: list[tuple[str, float]] = []

    def fare(seats: int) -> float:
        ran.append(("fare", seats))
        return 318.5

    def pay(sum: float) -> str:  # noqa: A002  # the name of an argument
        ran.append(("pay", sum))
        if len(ran) == len(RAN) - 1:
            raise TimeoutError("no card")
        return f"Paid {sum}"

    functions = {"fare": fare, "pay": pay}
    with Client(url, key) as hub:
        config = {"format": model.api, "guard": guard}
        hub.send(threads.put("talk", config=config))
        hub.send(tools.set_own("talk", [{"name": name} for name in functions]))
        if kind == "sync":
            Loop(hub, "talk", model, functions).run(SAID)
            return ran

    async def awaited() -> None:
        async with AsyncClient(url, key) as hub:
            await AsyncLoop(hub, "talk", model.awaited, functions).run(SAID)

    asyncio.run(awaited())
    return ran


def build_model(api: Vendor) -> Model:
    model = Model(api, "fare")
    model.script = [
        build_message(api, {call: made[:2] for call, made in calls.items()})
        for calls in TURNS
    ]
    model.script.append(build_answer(api))
    return model


def list_judged(hub: Client) -> list[tuple[str, str]]:
    """List verdict and outcome of each recorded call."""
    found = hub.each(events.list_all("talk"))
    bodies = [each["body"] for each in found if each["type"] == "call.recorded"]
    return [(body["verdict"], body["outcome"]) for body in bodies]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("api", APIS)
def test_guarded_loop_blocks_repairs_and_repeats_no_call(
    api: Vendor, kind: str, served: Server, key: str
) -> None:
    assert run(kind, served.url, key, build_model(api), "strict") == RAN
    with Client(served.url, key) as hub:
        kept = [each["content"] for each in hub.each(slots.list_all("talk"))]
        judged = list_judged(hub)
    called = {call: told for turn in TURNS for call, (_, _, told) in turn.items()}
    answers = [
        each for each in kept[1:-1] if each["role"] not in ("assistant", "model")
    ]
    found: dict[str, str] = {}
    for each in answers:
        found |= {call: text for call, text, _ in list_results(api, [each])}
    assert found.keys() == called.keys()
    for call, told in called.items():
        assert found[call].startswith(told), call
    assert judged == [
        ("block", "cancelled"),
        ("allow", "success"),
        ("repair", "success"),
        ("allow", "timeout"),
        ("warn", "success"),
    ]


def test_loop_without_a_guard_records_no_call(served: Server, key: str) -> None:
    model = build_model("chat")
    del model.script[2:5]
    ran = [("pay", 999), ("fare", 2), ("fare", 2)]
    assert run("sync", served.url, key, model, "off") == ran
    with Client(served.url, key) as hub:
        assert list_judged(hub) == []
