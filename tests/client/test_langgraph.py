"""LangGraph's checkpointer and a real server: conformance, graphs, bytes on disk."""

from __future__ import annotations

import operator
import random
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest

pytest.importorskip("langgraph")

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointMetadata,
    empty_checkpoint,
)
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from memoryhub_client import (
    AsyncClient,
    Client,
    Conflict,
    Forbidden,
    NotFound,
    checkpoints,
    keys,
    threads,
)
from memoryhub_client.langgraph import MemoryHubSaver
from memoryhub_client.langgraph_keys import (
    build_key,
    build_thread_name,
    parse_thread_name,
)
from tests.harness.instances import Instance, Server
from tools.conformance import SCORE

TALK: Any = {"configurable": {"thread_id": "talk", "checkpoint_ns": ""}}
NAME = "langgraph:talk"


@pytest.fixture
def client(served: Server, key: str) -> Iterator[Client]:
    with Client(served.url, key) as client:
        yield client


@pytest.fixture
def saver(client: Client) -> MemoryHubSaver:
    return MemoryHubSaver(client)


def put_values(saver: MemoryHubSaver, config: Any = TALK, **values: Any) -> Any:
    checkpoint = {**empty_checkpoint(), "channel_values": values}
    return saver.put(config, checkpoint, {"source": "loop"}, {})


def get_values(saver: MemoryHubSaver, config: Any = TALK) -> dict[str, Any]:
    found = saver.get_tuple(config)
    assert found is not None
    values: dict[str, Any] = found.checkpoint["channel_values"]
    return values


def list_names(client: Client, glob: str) -> list[str]:
    return [item["key"] for item in client.each(keys.list_all(NAME, glob=glob))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_saver_passes_the_conformance_suite(
    served: Server,
    key: str,
    kind: Any,
    record_property: Callable[[str, object], None],
) -> None:
    @checkpointer_test(name=kind.__name__)
    async def make() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        client = kind(served.url, key)
        yield MemoryHubSaver(client)
        if kind is AsyncClient:
            await client.close()
        else:
            client.close()

    report = await validate(make)
    results = report.results.values()
    assert [name for each in results for name in each.failures] == []
    assert [each.detected for each in results] == [True] * 8
    passed = sum(each.tests_passed for each in results)
    assert passed == 81
    record_property(SCORE, f"{passed} of 81")


# Graphs


class Steps(TypedDict):
    said: Annotated[list[str], operator.add]


def build_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Build a graph of three nodes; the second asks a person."""
    graph = StateGraph(Steps)
    graph.add_node("draft", lambda _: {"said": ["draft"]})
    graph.add_node("review", lambda _: {"said": [interrupt("Good?")]})
    graph.add_node("send", lambda state: {"said": [f"sent: {state['said'][-1]}"]})
    graph.add_edge(START, "draft").add_edge("draft", "review").add_edge(
        "review", "send"
    )
    return graph.compile(checkpointer=saver)


def test_graph_is_interrupted_resumed_and_rewound(client: Client) -> None:
    graph = build_graph(MemoryHubSaver(client))
    (asked,) = graph.invoke({"said": []}, TALK)["__interrupt__"]
    assert asked.value == "Good?"
    graph = build_graph(MemoryHubSaver(client))
    done = ["draft", "yes", "sent: yes"]
    assert graph.invoke(Command(resume="yes"), TALK)["said"] == done
    past = next(s for s in graph.get_state_history(TALK) if s.next == ("review",))
    graph.invoke(None, past.config)
    again = graph.invoke(Command(resume="no"), TALK)
    assert again["said"] == ["draft", "no", "sent: no"]


def test_new_thread_without_its_person_is_refused(client: Client) -> None:
    graph = build_graph(MemoryHubSaver(client, person_field="user_id"))
    with pytest.raises(ValueError, match=r"'user_id'. .* beside `thread_id`"):
        graph.invoke({"said": []}, TALK)
    with pytest.raises(NotFound):
        client.send(threads.get(NAME))
    graph.invoke({"said": []}, {"configurable": {"thread_id": "talk", "user_id": "a"}})
    eve: Any = {"configurable": {"thread_id": "talk", "user_id": "eve"}}
    for saver in (graph.checkpointer, MemoryHubSaver(client, person_field="user_id")):
        with pytest.raises(Conflict):
            saver.get_tuple(eve)
        with pytest.raises(Conflict):
            list(saver.list(eve))
    # The configuration of a stored state has no field of the caller's.
    graph = build_graph(MemoryHubSaver(client, person_field="user_id"))
    stored = graph.get_state(TALK).config
    assert graph.invoke(Command(resume="yes"), stored)["said"][-1] == "sent: yes"


def test_graph_goes_on_from_a_restored_hub_checkpoint(client: Client) -> None:
    graph = build_graph(MemoryHubSaver(client))
    graph.invoke({"said": ["x" * 1000]}, TALK)
    waiting = graph.get_state(TALK).config["configurable"]["checkpoint_id"]
    graph.invoke(Command(resume="yes"), TALK)
    points = {
        each["name"]: each["description"]
        for each in client.each(checkpoints.list_all(NAME))
    }
    assert points[waiting] == "Step 1, next: review"
    assert "Step 3" in points.values()
    client.send(checkpoints.restore(NAME, waiting))
    assert graph.get_state(TALK).config["configurable"]["checkpoint_id"] == waiting
    assert graph.invoke(None, TALK)["__interrupt__"]
    done = graph.invoke(Command(resume="no"), TALK)["said"]
    assert done == ["x" * 1000, "draft", "no", "sent: no"]


def test_checkpoint_is_stored_where_the_hub_refuses_its_point(
    client: Client, saver: MemoryHubSaver
) -> None:
    checkpoint, told = empty_checkpoint(), CheckpointMetadata(source="loop", step=1)
    client.send(threads.put(NAME))
    client.send(checkpoints.take(NAME, name=checkpoint["id"]))
    for step in (1, 2):
        stored = saver.put(TALK, checkpoint, {**told, "step": step}, {})
        found = saver.get_tuple(stored)
        assert found
        assert found.metadata["step"] == step
    other = empty_checkpoint()
    saver.put(TALK, other, told, {})
    names = [each["name"] for each in client.each(checkpoints.list_all(NAME))]
    assert names == [checkpoint["id"], other["id"]]


# Disk


class Talk(TypedDict):
    messages: Annotated[list[Any], add_messages]


def talk_long(saver: BaseCheckpointSaver[Any], turns: int) -> list[str]:
    """Run a graph whose list of messages grows by two a turn; return all texts."""
    chance = random.Random(7)
    words = [f"{chance.getrandbits(28):07x}" for _ in range(2_000)]

    def write() -> str:
        return " ".join(chance.choices(words, k=80))

    def answer(_: Talk) -> dict[str, Any]:
        name = str(UUID(int=chance.getrandbits(128)))
        return {"messages": [AIMessage(write(), id=name)]}

    graph: Any = StateGraph(Talk)
    graph.add_node("model", answer).add_edge(START, "model")
    compiled, done = graph.compile(checkpointer=saver), dict[str, Any]()
    for _ in range(turns):
        done = compiled.invoke({"messages": [HumanMessage(write())]}, TALK)
    return [message.content for message in done["messages"]]


@pytest.mark.slow
@pytest.mark.usefixtures("sqlite")
def test_long_run_takes_a_tenth_of_the_bytes_of_sqlite_saver(
    saver: MemoryHubSaver, shared: Instance, tmp_path: Path
) -> None:
    ours = shared.data / "memoryhub.sqlite3"

    def measure(path: Path) -> int:
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            (pages,) = database.execute("PRAGMA page_count").fetchone()
            (free,) = database.execute("PRAGMA freelist_count").fetchone()
            (size,) = database.execute("PRAGMA page_size").fetchone()
        database.close()
        return int((pages - free) * size)

    before = measure(ours)
    said = talk_long(saver, 60)
    grown = measure(ours) - before
    with SqliteSaver.from_conn_string(str(tmp_path / "saver.sqlite3")) as other:
        assert talk_long(other, 60) == said
    assert grown * 10 <= measure(tmp_path / "saver.sqlite3")


def test_unchanged_values_are_stored_once(
    saver: MemoryHubSaver, client: Client
) -> None:
    texts = [f"{n} " + "x" * 1000 for n in range(20)]
    for end in range(1, 21):
        put_values(saver, messages=texts[:end], same="y" * 1000)
    assert len(list_names(client, "v.*")) == 20 + 1 + 1


# Values and writes


@pytest.mark.parametrize(
    "value",
    [
        *("", "a\0b", "\ud800", "ü" * 150_000, None, b"\0\xff", 1.5, 2**70),
        *([], [[]], [None, "x" * 500, {"a"}], [*range(5_000)], {1: {"a": [True]}}),
        *({"a": "x" * 1_000}, {"x", "y"}, ["z" * 70_000] * 40),
    ],
    ids=lambda value: f"{type(value).__name__}-{len(str(value))}",
)
def test_values_come_back_as_they_were(client: Client, value: Any) -> None:
    put_values(MemoryHubSaver(client), channel=value)
    found = get_values(MemoryHubSaver(client))["channel"]
    assert (found, type(found)) == (value, type(value))


def test_writes_are_merged_by_position(saver: MemoryHubSaver) -> None:
    early = {**TALK["configurable"], "checkpoint_id": "9"}
    config: Any = {"configurable": early}
    saver.put_writes(config, [("x", "a"), ("x", "b"), (ERROR, "1")], "task")
    saver.put_writes(config, [("x", "c"), (ERROR, "2"), ("x", "e")], "task")
    saver.put_writes(config, [(INTERRUPT, 3)], "first", "a path")
    checkpoint = {**empty_checkpoint(), "id": "9"}
    saver.put(TALK, checkpoint, {"source": "loop"}, {})
    found = saver.get_tuple(config)
    assert found is not None
    writes = [("task", ERROR, "2"), ("task", "x", "a"), ("task", "x", "b")]
    third = ("task", "x", "e")
    assert found.pending_writes == [*writes, third, ("first", INTERRUPT, 3)]


def test_latest_checkpoint_has_the_largest_id(saver: MemoryHubSaver) -> None:
    for name in ("20", "3", "1", "30"):
        saver.put(TALK, {**empty_checkpoint(), "id": name}, {"step": int(name)}, {})
    assert [each.metadata["step"] for each in saver.list(TALK)] == [30, 3, 20, 1]
    found = saver.list(None, before={"configurable": {"checkpoint_id": "3"}}, limit=1)
    assert [each.checkpoint["id"] for each in found] == ["20"]


# Others write to the thread, too


def test_pruning_deletes_texts_that_nothing_references(
    saver: MemoryHubSaver, client: Client
) -> None:
    put_values(saver, old="o" * 1000, both="b" * 1000)
    config = put_values(saver, new="n" * 1000, both="b" * 1000)
    saver.prune(["talk"])
    assert len(list_names(client, "v.*")) == 2
    assert len(list_names(client, "c.*")) == 1
    assert get_values(saver, config) == {"new": "n" * 1000, "both": "b" * 1000}


def test_put_stores_texts_again_that_another_saver_deleted(client: Client) -> None:
    here, there = MemoryHubSaver(client), MemoryHubSaver(client)
    put_values(here, channel="x" * 1000)
    there.delete_thread("talk")
    put_values(here, channel="x" * 1000)
    assert get_values(MemoryHubSaver(client)) == {"channel": "x" * 1000}


def test_savers_write_one_thread_in_turn(client: Client) -> None:
    savers = [MemoryHubSaver(client), MemoryHubSaver(client)]
    for n in range(6):
        put_values(savers[n % 2], channel=["x" * 1000, f"{n} " + "y" * 1000])
    assert len([*savers[0].list(TALK)]) == 6


def test_copy_into_an_existing_thread_keeps_both(saver: MemoryHubSaver) -> None:
    put_values(saver, channel=["x" * 1000] * 20)
    there: Any = {"configurable": {"thread_id": "ü" * 100, "checkpoint_ns": ""}}
    put_values(saver, there, channel="own")
    saver.copy_thread("talk", "ü" * 100)
    found = [each.checkpoint["channel_values"] for each in saver.list(there)]
    assert found == [{"channel": "own"}, {"channel": ["x" * 1000] * 20}]
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {
        "talk",
        "ü" * 100,
    }


def test_saver_raises_forbidden_without_the_scope(
    served: Server, shared: Instance, project: str, key: str
) -> None:
    reader = shared.managed("create_key", project, "--scopes=memory:read").strip()
    with Client(served.url, reader) as client, pytest.raises(Forbidden):
        build_graph(MemoryHubSaver(client)).invoke({"said": []}, TALK)


# Names


@given(st.text(st.characters(codec=None)))
def test_thread_names_are_reversible(thread_id: str) -> None:
    name = build_thread_name(thread_id)
    assert len(name) <= 128
    assert parse_thread_name(name) in (thread_id, None)


@given(st.lists(st.text(max_size=20), unique=True))
def test_keys_are_sorted_by_descending_id(ids: list[str]) -> None:
    ordered = sorted(ids, key=lambda each: build_key("", each), reverse=True)
    assert ordered == sorted(ids, key=str.encode)
