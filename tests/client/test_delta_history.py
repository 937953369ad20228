"""Histories of LangGraph's delta channels: the eight behaviours that it asks of savers.

Version 0.0.2 of its conformance suite asks for none; its repository does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest

pytest.importorskip("langgraph")

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph

from memoryhub_client import AsyncClient, Client
from memoryhub_client.langgraph import MemoryHubSaver
from tests.harness.instances import Server

ROOT: Any = {"configurable": {"thread_id": "deltas", "checkpoint_ns": ""}}


class DeltaStep(NamedTuple):
    """A checkpoint: the values that it stores, and the writes that lead to the next."""

    values: dict[str, Any]
    writes: dict[str, Any]


class DeltaCase(NamedTuple):
    steps: list[DeltaStep]
    #: By channel: the writes to replay, and behind them the seed if there is one.
    expected: dict[str, tuple[Any, ...]]


def snap(value: Any) -> _DeltaSnapshot:
    return _DeltaSnapshot(value)


def list_steps(count: int, values: dict[int, Any]) -> list[DeltaStep]:
    """List steps that write their number to `a`; some store a value of it."""
    return [
        DeltaStep({"a": values[n]} if n in values else {}, {"a": n})
        for n in range(count)
    ]


BOTH = [
    DeltaStep({"a": snap("A")} if n == 1 else {"b": snap("B")} if n == 3 else {},
              {"a": n, "b": -n})
    for n in range(5)
]  # fmt: skip
CASES = {
    "oldest_write_first": DeltaCase(
        list_steps(5, {0: snap("s")}), {"a": ([0, 1, 2, 3], snap("s"))}
    ),
    "nearest_snapshot_is_the_seed": DeltaCase(
        list_steps(6, {0: snap("old"), 3: snap("new")}), {"a": ([3, 4], snap("new"))}
    ),
    "writes_of_the_target_are_left_out": DeltaCase(
        list_steps(2, {0: snap("s")}), {"a": ([0], snap("s"))}
    ),
    "each_channel_ends_at_its_own_seed": DeltaCase(
        BOTH, {"a": ([1, 2, 3], snap("A")), "b": ([-3], snap("B"))}
    ),
    "no_channel_has_no_history": DeltaCase(list_steps(3, {0: snap("s")}), {}),
    "no_seed_up_to_the_root": DeltaCase(list_steps(4, {}), {"a": ([0, 1, 2],)}),
    "plain_value_is_a_seed": DeltaCase(
        [
            DeltaStep({}, {"a": 0}),
            DeltaStep({"a": [10, 20]}, {}),
            DeltaStep({}, {"a": 2}),
            DeltaStep({}, {}),
        ],
        {"a": ([2], [10, 20])},
    ),
    "writes_at_the_seed_are_replayed": DeltaCase(
        list_steps(4, {0: ["older"], 1: ["nearest"]}), {"a": ([1, 2], ["nearest"])}
    ),
}


@pytest.fixture
def hub(served: Server, key: str) -> Iterator[Client]:
    with Client(served.url, key) as hub:
        yield hub


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_delta_history_is_what_a_channel_is_rebuilt_from(
    served: Server, key: str, hub: Client, case: DeltaCase
) -> None:
    saver, place = MemoryHubSaver(hub), ROOT
    for number, step in enumerate(case.steps):
        checkpoint: Any = {**empty_checkpoint(), "channel_values": step.values}
        versions = dict.fromkeys(step.values, number + 1)
        place = saver.put(place, checkpoint, {"source": "loop"}, versions)
        saver.put_writes(place, [*step.writes.items()], f"task {number}")
    asked = [*case.expected]
    found = saver.get_delta_channel_history(config=place, channels=asked)
    async with AsyncClient(served.url, key) as other:
        again = await MemoryHubSaver(other).aget_delta_channel_history(
            config=place, channels=asked
        )
    for history in (found, again):
        assert {
            channel: (
                [value for *_, value in each["writes"]],
                *([each["seed"]] if "seed" in each else []),
            )
            for channel, each in history.items()
        } == case.expected


def join(state: list[str], writes: Any) -> list[str]:
    return state + [text for write in writes for text in write]


class DeltaTalk(TypedDict):
    said: Annotated[list[str], DeltaChannel(join)]


def test_graph_with_a_delta_channel_is_rebuilt_and_rewound(hub: Client) -> None:
    graph = StateGraph(DeltaTalk)
    graph.add_node("answer", lambda state: {"said": [f"no. {len(state['said'])}"]})
    graph.add_edge(START, "answer")
    bound: Any = None
    for turn in range(4):
        bound = graph.compile(checkpointer=MemoryHubSaver(hub))
        bound.invoke({"said": [f"turn {turn}"]}, ROOT)
    said = [part for n in range(4) for part in (f"turn {n}", f"no. {2 * n + 1}")]
    assert bound.get_state(ROOT).values["said"] == said
    past = [each.values.get("said") for each in bound.get_state_history(ROOT)]
    assert said[:3] in past
