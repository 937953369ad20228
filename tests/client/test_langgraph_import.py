"""Checkpoints of LangGraph's SQLite saver, copied into a real hub."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from memoryhub_client import Client, threads
from memoryhub_client.langgraph import MemoryHubSaver
from memoryhub_client.langgraph_import import main
from tests.harness.instances import Server


class Trip(TypedDict):
    messages: Annotated[list[Any], add_messages]
    seats: Annotated[list[Any], operator.add]


@pytest.fixture
def saver(
    served: Server, key: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MemoryHubSaver]:
    monkeypatch.setenv("MEMORYHUB_URL", served.url)
    monkeypatch.setenv("MEMORYHUB_KEY", key)
    with Client(served.url, key) as client:
        yield MemoryHubSaver(client)


def build_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Build a graph with a subgraph, parallel tasks and a question to a person."""
    inner = StateGraph(Trip)
    inner.add_node("think", lambda _: {"messages": AIMessage("Seat 7A?")})
    inner.add_node("ask", lambda _: {"seats": [interrupt("Window?")]})
    inner.add_edge(START, "think").add_edge("think", "ask")
    graph = StateGraph(Trip)
    graph.add_node("look", lambda state: {"seats": [{"row": state["row"]}]})
    graph.add_node("book", inner.compile())
    graph.add_conditional_edges(
        START, lambda _: [Send("look", {"row": row}) for row in (9, 7, 8)]
    )
    graph.add_edge("look", "book")
    return graph.compile(checkpointer=saver)


def list_tuples(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    return sorted(saver.list(None), key=lambda each: str(each.config["configurable"]))


def test_copied_checkpoints_are_equal_and_graphs_go_on(
    saver: MemoryHubSaver,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, config = tmp_path / "trip.sqlite", {"thread_id": "trip 1", "user_id": "ann"}
    trip: Any = {"configurable": config}
    sent = {"messages": [HumanMessage("A seat?")], "seats": []}
    with SqliteSaver.from_conn_string(str(path)) as source:
        graph = build_graph(source)
        graph.invoke(sent, trip)
        graph.invoke(sent, {"configurable": {**config, "thread_id": "trip 2"}})
        main([str(path), "--person-field", "user_id"])
        assert list_tuples(saver) == list_tuples(source)
        copied = len(list_tuples(source))
        asked = graph.get_state_history(trip)
        assert [*build_graph(saver).get_state_history(trip)] == [*asked]
        # The graph goes on in its old place, and a second copy brings the rest alone.
        graph.invoke(Command(resume="yes"), trip)
        main([str(path), "--person-field", "user_id"])
        assert list_tuples(saver) == list_tuples(source)
        more = len(list_tuples(source)) - copied
        main([str(path)])
        # Each goes on by itself, with the versions of channels that the file brought.
        other: Any = {"configurable": {"thread_id": "trip 2"}}
        done, as_before = (
            build_graph(each).invoke(Command(resume="no"), other)["seats"]
            for each in (saver, source)
        )
        assert done == as_before
        assert done[-1] == "no"
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{copied} checkpoints and")
    assert second.startswith(f"{more} checkpoints and")
    assert third.startswith("0 checkpoints and the writes of 0 tasks")
    assert isinstance(saver.hub, Client)
    named = [*saver.hub.each(threads.search(user_id="ann"))]
    assert len(named) == 2
