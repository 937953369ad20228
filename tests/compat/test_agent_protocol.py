"""The Agent Protocol's routes, by LangGraph's own SDK."""

from __future__ import annotations

import math
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

import httpx2
import pytest

pytest.importorskip("langgraph")

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from langgraph_sdk import errors, get_client, get_sync_client

from memoryhub.compat import langgraph_filters as restated_filters
from memoryhub.compat import langgraph_names as names
from memoryhub_client import Client as Hub
from memoryhub_client import erasures, langgraph_filters, langgraph_keys, subjects
from memoryhub_client import keys as hub_keys
from memoryhub_client import threads as hub_threads
from memoryhub_client.langgraph import MemoryHubSaver
from memoryhub_client.langgraph_items import ItemThread
from memoryhub_client.langgraph_store import MemoryHubStore
from tests.client.test_langgraph_store import FILTERS, KEYS, NAMESPACES, VALUES
from tests.harness.instances import Instance, Server
from tests.mcp.conftest import MakeKey
from tests.promises.conftest import MAKE_KEY

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agent_protocol.py"
Connect = Callable[..., Any]
NOWHERE = "3f0b7a9e-0000-4000-8000-000000000000"
STORE = ItemThread("store:main")


class Talk(TypedDict, total=False):
    said: Annotated[list[str], operator.add]
    asked: HumanMessage


def ask_person(_: Talk) -> Any:
    return {"said": [interrupt("Good?")], "asked": HumanMessage("Good?")}


def build_graph(hub: Hub) -> Any:
    graph: Any = StateGraph(Talk)
    graph.add_node("draft", lambda _: {"said": ["draft"]})
    graph.add_node("review", ask_person)
    graph.add_edge(START, "draft").add_edge("draft", "review")
    return graph.compile(checkpointer=MemoryHubSaver(hub))


@pytest.fixture
def connect(served: Server, key: str) -> Iterator[Connect]:
    """Yield a function that makes a client, by default with the project's key."""
    with ExitStack() as stack:

        def connect_by(its: str = key) -> Any:
            url = f"{served.url}/compat/agent-protocol"
            return stack.enter_context(get_sync_client(url=url, api_key=its))

        yield connect_by


@pytest.fixture
def client(connect: Connect) -> Any:
    return connect()


@pytest.fixture
def hub(served: Server, key: str) -> Iterator[Hub]:
    with Hub(served.url, key) as hub:
        yield hub


def send(
    server: Server, key: str, method: str, path: str, **more: Any
) -> httpx2.Response:
    """Send a request that the SDK never sends."""
    url = f"{server.url}/compat/agent-protocol{path}"
    return httpx2.request(method, url, **{"headers": {"x-api-key": key}, **more})


# Names that are restated


@given(NAMESPACES, KEYS, VALUES, FILTERS)
def test_names_and_filters_are_those_of_the_client(
    namespace: Any, key: str, value: Any, conditions: Any
) -> None:
    name = STORE.build_name(namespace, key)
    assert names.build_item_name(namespace, key) == name
    assert names.build_item_glob(namespace) == STORE.build_glob(namespace)
    change = STORE.build_set(namespace, key, value, None)
    assert names.build_item_value(name, namespace, key, value) == change["value"]
    assert names.parse_item(change) == (namespace, key, value)
    for thread_id in (key, key * 9):
        built = names.build_thread_name(thread_id)
        assert built == langgraph_keys.build_thread_name(thread_id)
        assert names.parse_thread_name(built) == langgraph_keys.parse_thread_name(built)
    (digest, _, _) = names.build_checkpoint_glob(key).rpartition("*")
    assert langgraph_keys.build_key(key, None) == digest
    wanted = langgraph_filters.is_match(value, conditions or {})
    assert restated_filters.is_match(value, conditions or {}) == wanted


# Items


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.tuples(NAMESPACES, KEYS, VALUES), FILTERS)
def test_store_answers_as_the_client_does(
    client: Any, hub: Hub, item: tuple[Any, str, Any], conditions: Any
) -> None:
    store, protocol = MemoryHubStore(hub), client.store
    namespace, key, value = item
    # The SDK sends no integer beyond 64 bits.
    assume(str(2**70) not in f"{value} {conditions}")
    protocol.put_item(namespace, key, value)
    (listed,) = [
        each
        for each in protocol.search_items(namespace, limit=100)["items"]
        if (each["namespace"], each["key"]) == ([*namespace], key)
    ]
    assert listed.pop("score") is None
    assert protocol.get_item(namespace, key) == listed
    stored = store.get(namespace, key)
    assert stored is not None
    assert stored.value == listed["value"] == value
    store.put(("b", "other"), key, {"e": 1})
    sought = store.search(namespace[:1], filter=conditions, limit=50)
    found = protocol.search_items(namespace[:1], filter=conditions, limit=50)["items"]
    assert [(each["namespace"], each["key"]) for each in found] == [
        ([*each.namespace], each.key) for each in sought
    ]
    spaces = protocol.list_namespaces(prefix=[*namespace[:1]], max_depth=2)
    assert spaces["namespaces"] == [
        [*each] for each in store.list_namespaces(prefix=namespace[:1], max_depth=2)
    ]
    if len(key) % 2:
        protocol.delete_item(namespace, key)
        assert store.get(namespace, key) is None


def test_items_are_found_by_words_and_end_in_time(client: Any, hub: Hub) -> None:
    store = client.store
    store.put_item(["users", "ann"], "seat", {"text": "by the window"}, index=False)
    store.put_item(["users", "ben"], "seat", {"text": "on the aisle"}, ttl=5)
    assert store.list_namespaces(suffix=["ann"])["namespaces"] == [["users", "ann"]]
    assert store.list_namespaces(prefix=["*", "b"])["namespaces"] == []
    (best, other) = store.search_items(["users"], query='"window":')["items"]
    assert best["namespace"] == ["users", "ann"]
    assert best["score"] > 0
    assert other["score"] is None
    (page,) = store.search_items([], limit=1, offset=1)["items"]
    assert page["namespace"] == ["users", "ann"]
    stored = hub.send(hub_keys.get("store:main", "i.users.ben.:seat"))
    assert stored["expires_at"] > stored["set_at"]
    with pytest.raises(errors.UnprocessableEntityError, match="refresh_ttl"):
        store.search_items(["users"], refresh_ttl=True)
    with pytest.raises(errors.UnprocessableEntityError, match="filter"):
        store.search_items(["users"], filter={"a": {"$x": 1}})
    store.delete_item(["users", "zoe"], "seat")
    with pytest.raises(errors.NotFoundError, match="not_found"):
        store.get_item(["users", "zoe"], "seat")


# Threads


def test_thread_lives_until_it_is_deleted(client: Any) -> None:
    threads = client.threads
    made = threads.create(metadata={"user": "ann"}, graph_id="mail")
    thread_id = made["thread_id"]
    assert made["metadata"] == {"user": "ann", "graph_id": "mail"}
    assert made["status"] == "idle"
    with pytest.raises(errors.ConflictError, match="key_exists"):
        threads.create(thread_id=thread_id)
    again = threads.create(thread_id=thread_id, if_exists="do_nothing")
    assert again["metadata"] == made["metadata"]
    changed = threads.update(thread_id, metadata={"user": "ben", "n": 1})
    assert changed["metadata"] == {"user": "ben", "graph_id": "mail", "n": 1}
    assert threads.update(thread_id, metadata={}, return_minimal=True) is None
    assert threads.get(thread_id)["values"] == {}
    assert threads.get_state(thread_id)["values"] == {}
    assert threads.get_history(thread_id) == []

    other = threads.create(thread_id="a ü/long id" * 20, metadata={"user": "zoe"})
    found = threads.search(sort_by="created_at", sort_order="asc")
    assert [each["thread_id"] for each in found] == [thread_id, other["thread_id"]]
    assert threads.search(limit=1, offset=1, select=["metadata"], sort_by="created_at")[
        0
    ] == {"metadata": changed["metadata"]}
    assert threads.search(metadata={"user": "zoe"}, ids=[thread_id]) == []
    (zoe,) = threads.search(metadata={"user": "zoe"}, select=["thread_id", "values"])
    assert "values" not in found[0]
    assert zoe == {"thread_id": other["thread_id"], "values": {}}
    (mail,) = threads.search(metadata={"graph_id": "mail"}, ids=[NOWHERE, thread_id])
    assert mail["metadata"] == changed["metadata"]
    assert threads.search(status="busy") == []

    threads.delete(thread_id)
    for act in (threads.get, threads.delete, threads.copy, threads.get_history):
        with pytest.raises(errors.NotFoundError, match="not_found"):
            act(thread_id)
    assert len(threads.search()) == 1
    assert threads.create(thread_id=thread_id)["metadata"] == {}


def test_states_are_those_of_the_graph(client: Any, hub: Hub) -> None:
    threads, graph = client.threads, build_graph(hub)
    thread_id = threads.create(metadata={"user": "ann"})["thread_id"]
    config: Any = {"configurable": {"thread_id": thread_id}}
    graph.invoke({"said": [f"line {each}" for each in range(40)]}, config)
    state = threads.get_state(thread_id)
    wanted = graph.get_state(config)
    assert state["values"] == wanted.values
    assert state["next"] == [*wanted.next] == ["review"]
    graph.invoke(Command(resume="yes"), config)
    states, known = threads.get_history(thread_id), [*graph.get_state_history(config)]
    assert [each["checkpoint"] for each in states] == [
        {"thread_id": thread_id, **pick_place(each.config)} for each in known
    ]
    assert [each["metadata"] for each in states] == [each.metadata for each in known]
    assert [each["created_at"] for each in states] == [
        each.created_at for each in known
    ]
    for state, each in zip(states, known, strict=True):
        assert state.get("next", [*each.next]) == [*each.next]
        assert state["values"].get("said", []) == each.values["said"]
    assert ["next" in each for each in states] == [True] * 3 + [False]
    asked = states[0]["values"]["asked"]
    assert asked["__serde__"].startswith("msgpack")
    assert threads.get(thread_id)["values"] == states[0]["values"]

    second = states[1]["checkpoint"]
    for named in ({"checkpoint": second}, {"checkpoint_id": second["checkpoint_id"]}):
        assert threads.get_state(thread_id, **named) == states[1]
    assert threads.get_history(thread_id, before=second, limit=1) == [states[2]]
    assert threads.get_history(thread_id, metadata={"source": "input"}) == [states[3]]
    (short,) = threads.get_history(thread_id, limit=1, select=["metadata"])
    assert short == {"metadata": states[0]["metadata"]}
    with pytest.raises(errors.NotFoundError, match="checkpoint"):
        threads.get_state(thread_id, checkpoint_id=NOWHERE)

    copied = threads.copy(thread_id)
    assert copied["metadata"] == {"user": "ann"}
    config["configurable"]["thread_id"] = copied["thread_id"]
    assert len([*graph.get_state_history(config)]) == 4
    threads.delete(copied["thread_id"])
    assert graph.get_state(config).values == {}
    assert len(threads.get_history(thread_id)) == 4


def test_half_surrogate_pair_is_replaced(client: Any, hub: Hub) -> None:
    config: Any = {"configurable": {"thread_id": "odd"}}
    build_graph(hub).invoke({"said": ["\ud800", math.nan]}, config)
    (text, number, *_) = client.threads.get("odd")["values"]["said"]
    assert text == "?"
    assert number["__serde__"] == "msgpack"


def pick_place(config: Any) -> dict[str, Any]:
    place = config["configurable"]
    return {name: place[name] for name in ("checkpoint_ns", "checkpoint_id")}


def test_broken_checkpoint_is_refused_in_words(client: Any, hub: Hub) -> None:
    thread_id = client.threads.create()["thread_id"]
    name = f"langgraph:{thread_id}"
    loop = [{"chunk": "abcd1"}] * 20
    hub.send(hub_keys.put(name, "v.abcd1", str(loop).replace("'", '"')))
    record = {"id": "x", "ns": "", "parent": None, "metadata": {"list": loop}}
    for value in (
        5,
        "x",
        {},
        {"record": "abcd2"},
        {"values": 1, "metadata": 2},
        record,
    ):
        hub.send(hub_keys.put(name, "c.root.xz", value))
        with pytest.raises(errors.APIStatusError) as refused:
            client.threads.get_state(thread_id)
        assert refused.value.status_code in (409, 413)
    assert "values" not in client.threads.update(thread_id, metadata={"a": 1})
    hub.send(hub_keys.put(name, "about.metadata", [5]))
    for act in (client.threads.get, client.threads.copy, client.threads.get_state):
        with pytest.raises(errors.ConflictError, match="bad_thread"):
            act(thread_id)
    assert client.threads.search() == client.threads.search(ids=[thread_id]) == []
    hub.send(hub_threads.put("store:main"))
    hub.send(hub_keys.put("store:main", "i.a.:@@x", 5))
    with pytest.raises(errors.ConflictError, match="bad_item"):
        client.store.search_items(["a"])


async def test_async_client_reads_what_it_wrote(served: Server, key: str) -> None:
    url = f"{served.url}/compat/agent-protocol"
    async with get_client(url=url, api_key=key) as client:
        made = await client.threads.create(thread_id="t 1")
        assert (await client.threads.get("t 1"))["thread_id"] == made["thread_id"]
        await client.store.put_item(["a"], key="k", value={"n": 1})
        assert (await client.store.get_item(["a"], key="k"))["value"] == {"n": 1}
        with pytest.raises(errors.InternalServerError, match="runs no graph"):
            await client.runs.create("t 1", "agent")


def test_example_runs_on_a_fresh_hub(served: Server, key: str) -> None:
    env = {**os.environ, "MEMORYHUB_URL": served.url, "MEMORYHUB_KEY": key}
    done = subprocess.run(
        [sys.executable, EXAMPLE], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "by the window" in done.stdout


# Refusals


def test_key_reaches_its_own_project_by_its_scopes(
    client: Any, connect: Connect, make_key: MakeKey
) -> None:
    thread_id = client.threads.create()["thread_id"]
    client.store.put_item(["a"], "k", {})
    reader = connect(make_key("--scopes=memory:read"))
    assert reader.threads.get(thread_id)["thread_id"] == thread_id
    assert reader.store.get_item(["a"], "k")["value"] == {}
    for act in (
        reader.threads.create,
        lambda: reader.threads.delete(thread_id),
        lambda: reader.store.put_item(["a"], "k", {}),
    ):
        with pytest.raises(errors.PermissionDeniedError, match="memory:write"):
            act()
    bound = connect(make_key(person="ann"))
    with pytest.raises(errors.NotFoundError):
        bound.threads.get(thread_id)
    own = bound.threads.create()["thread_id"]
    assert [each["thread_id"] for each in bound.threads.search()] == [own]
    with pytest.raises(errors.AuthenticationError, match="unauthorized"):
        connect("mh_live_nobody").threads.search()


def test_other_project_finds_nothing(
    client: Any, connect: Connect, shared: Instance
) -> None:
    thread_id = client.threads.create(metadata={"user": "ann"})["thread_id"]
    client.store.put_item(["a"], "k", {"n": 1})
    other = connect(shared.call(MAKE_KEY, f"other-{thread_id[:8]}").strip())
    acts: list[Callable[[], Any]] = [
        lambda: other.threads.get(thread_id),
        lambda: other.threads.get_state(thread_id),
        lambda: other.threads.get_history(thread_id),
        lambda: other.threads.copy(thread_id),
        lambda: other.threads.update(thread_id, metadata={"user": "ben"}),
        lambda: other.threads.delete(thread_id),
        lambda: other.store.get_item(["a"], "k"),
    ]
    for act in acts:
        with pytest.raises(errors.NotFoundError, match="not_found"):
            act()
    assert other.threads.search(ids=[thread_id]) == other.threads.search() == []
    assert other.store.search_items([])["items"] == []
    assert other.store.list_namespaces()["namespaces"] == []
    other.store.delete_item(["a"], "k")
    assert client.store.get_item(["a"], "k")["value"] == {"n": 1}
    assert client.threads.get(thread_id)["metadata"] == {"user": "ann"}


def erase_person(server: Server, officer: str, person: str) -> None:
    with Hub(server.url, officer) as hub:
        subject = hub.send(subjects.resolve(person))["id"]
        plan = hub.send(erasures.plan(subject, "subject", "test"))
        hub.send(erasures.confirm(plan["id"], plan["plan_token"], plan["count"]))


def test_erased_person_is_gone_from_every_route(
    served: Server, client: Any, connect: Connect, make_key: MakeKey
) -> None:
    bound = connect(key := make_key(person="ann"))
    thread_id = bound.threads.create(metadata={"user": "ann"})["thread_id"]
    bound.store.put_item(["a"], "k", {"n": 1})
    other = client.threads.create()["thread_id"]
    scopes = "--scopes=subject:export,subject:forget,admin"
    erase_person(served, make_key(scopes), "ann")
    item = {"namespace": ["a"], "key": "k"}
    for method, path, body in (
        ("GET", f"/threads/{thread_id}", None),
        ("GET", f"/threads/{thread_id}/state", None),
        ("GET", f"/threads/{thread_id}/history", None),
        ("PATCH", f"/threads/{thread_id}", {"metadata": {}}),
        ("POST", f"/threads/{thread_id}/copy", None),
        ("DELETE", f"/threads/{thread_id}", None),
        ("POST", "/threads", {"thread_id": thread_id}),
        ("POST", "/threads", {}),
        ("GET", "/store/items?namespace=a&key=k", None),
        ("PUT", "/store/items", {**item, "value": {}}),
        ("DELETE", "/store/items", item),
        ("POST", "/store/items/search", {}),
        ("POST", "/store/namespaces", {}),
        ("POST", "/threads/search", {}),
        ("POST", "/threads/search", {"ids": [thread_id]}),
    ):
        answer = send(served, key, method, path, json=body)
        if answer.status_code == 200:
            assert answer.json() in ([], {"items": []}, {"namespaces": []}), path
        else:
            assert answer.status_code in (204, 404, 410), (path, answer.text)
            assert answer.status_code == 204 or {*answer.json()} == SHAPE
    assert [each["thread_id"] for each in client.threads.search()] == [other]


def test_search_reads_a_bounded_list(client: Any, hub: Hub) -> None:
    for each in range(401):
        hub.send(hub_threads.put(f"langgraph:t{each}", labels={"kind": "langgraph"}))
    made = client.threads.create(thread_id="new")["thread_id"]
    (newest,) = client.threads.search(limit=1)
    assert newest["thread_id"] == made
    assert len(client.threads.search(ids=["new", "t1"])) == 1
    with pytest.raises(errors.APIStatusError, match="list_too_long") as refused:
        client.threads.search(metadata={"user": "ann"})
    assert refused.value.status_code == 413


def nest_lists(depth: int) -> dict[str, Any]:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    return {"a": nested}


SHAPE = {"code", "message"}
JSON = {"content-type": "application/json"}
ITEM = {"namespace": ["a"], "key": "k"}
DEEP = b'{"metadata":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
REFUSED: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", f"/threads/{NOWHERE}", {}, 404),
    ("GET", f"/threads/{NOWHERE}", {"headers": {}}, 401),
    ("GET", f"/threads/{NOWHERE}", {"headers": {"host": "evil.example"}}, 400),
    ("GET", "/", {}, 404),
    ("GET", "/threads/%00%ff/history?limit=x", {}, 422),
    ("GET", f"/threads/{NOWHERE}/history?limit=1&before=x", {}, 404),
    ("POST", "/threads/prune", {"json": {}}, 405),
    ("POST", "/threads", {"content": b"x"}, 415),
    ("POST", "/threads", {}, 422),
    ("POST", "/threads", {"content": b"\0", "headers": JSON}, 422),
    ("POST", "/threads", {"content": DEEP, "headers": JSON}, 422),
    ("POST", "/threads", {"content": b'{"thread_id":"\\ud800"}', "headers": JSON}, 422),
    ("POST", "/threads/search", {"content": b'{"ids":["\xff"]}', "headers": JSON}, 422),
    ("POST", "/threads/search", {"json": {"ids": ["a"] * 101}}, 422),
    ("POST", "/threads/search", {"json": {"offset": 10**12}}, 422),
    ("GET", "/threads/%00", {}, 404),
    ("GET", "/threads/%ed%a0%80/state", {}, 404),
    ("GET", f"/threads/{'a' * 4_000}", {}, 404),
    ("GET", "/store/items?namespace=%00&key=%ed%a0%80", {}, 404),
    ("PUT", "/store/items", {"json": {**ITEM, "value": {"a": "\0"}}}, 422),
    ("PUT", "/store/items", {"json": {**ITEM, "value": nest_lists(200)}}, 422),
    ("POST", "/store/items/search", {"json": {"filter": nest_lists(200)}}, 422),
    ("POST", "/threads", {"json": {"ttl": {"ttl": 1}}}, 422),
    ("POST", "/threads", {"json": {"thread_id": 1}}, 422),
    ("POST", "/threads", {"json": {"metadata": {"a": "\0"}}}, 422),
    ("POST", "/threads/search", {"json": {"limit": -1}}, 422),
    ("POST", "/threads/search", {"json": {"sort_by": []}}, 422),
    ("POST", "/threads/search", {"json": {"values": {"a": 1}}}, 422),
    ("PATCH", f"/threads/{NOWHERE}", {"json": {"metadata": {}}}, 404),
    ("PATCH", f"/threads/{NOWHERE}", {"json": {"values": {}}}, 422),
    ("POST", f"/threads/{NOWHERE}/copy", {}, 404),
    ("POST", f"/threads/{NOWHERE}/state", {"json": {"values": {}}}, 501),
    ("POST", f"/threads/{NOWHERE}/runs/stream", {"json": {}}, 501),
    ("POST", "/assistants/search", {"json": {}}, 501),
    ("POST", "/runs/crons", {"json": {}}, 501),
    ("POST", f"/threads/{NOWHERE}/history", {"json": {"before": 1}}, 422),
    ("PUT", "/store/items", {"json": {"namespace": [], "key": "", "value": {}}}, 422),
    ("PUT", "/store/items", {"json": {"namespace": ["a"], "key": "k"}}, 422),
    ("PUT", "/store/items", {"content": b"x" * 10_000_000, "headers": JSON}, 413),
    ("GET", "/store/items?namespace=a&namespace=b&key=k", {}, 404),
    ("GET", "/store/items?namespace=..&key=k", {}, 422),
    ("DELETE", "/store/items", {}, 422),
    ("POST", "/store/items/search", {"json": {"filter": []}}, 422),
    ("POST", "/store/namespaces", {"json": {"max_depth": "1"}}, 422),
]


@pytest.mark.parametrize("case", REFUSED)
def test_bad_request_is_refused_in_the_protocols_shape(
    served: Server, key: str, case: tuple[str, str, dict[str, Any], int]
) -> None:
    method, path, more, status = case
    if more.get("headers"):
        more = {**more, "headers": {"x-api-key": key, **more["headers"]}}
    answer = send(served, key, method, path, **more)
    assert answer.status_code == status, answer.text
    assert {*answer.json()} == SHAPE
    assert answer.json()["message"].startswith(answer.json()["code"])
