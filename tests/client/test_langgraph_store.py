"""LangGraph's store and a real server: differential against InMemoryStore."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest

pytest.importorskip("langgraph")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    TTLConfig,
)
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from memoryhub_client import (
    AsyncClient,
    Client,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooLarge,
    erasures,
    keys,
    subjects,
    threads,
)
from memoryhub_client.langgraph_filters import is_match
from memoryhub_client.langgraph_items import ItemThread, is_long
from memoryhub_client.langgraph_store import MemoryHubStore
from tests.harness.instances import Instance, Server


class Visits(TypedDict, total=False):
    visits: int


ANN, BEN = ("memories", "ann"), ("memories", "ben")
LONG = ("x" * 90, "ü" * 60)


@pytest.fixture
def client(served: Server, key: str) -> Iterator[Client]:
    with Client(served.url, key) as client:
        yield client


@pytest.fixture
def store(client: Client) -> MemoryHubStore:
    return MemoryHubStore(client)


@pytest.fixture
def persons(client: Client) -> MemoryHubStore:
    return MemoryHubStore(client, name="persons", person_part=1)


def connect_bound(served: Server, shared: Instance, project: str, user: str) -> Client:
    made = shared.manage("create_key", project, "--user-id", stdin=user)
    return Client(served.url, made.stdout.strip())


def list_found(store: Any, *prefix: str, **search: Any) -> list[str]:
    return [item.key for item in store.search(prefix, **search)]


# Differential

LABELS = st.sampled_from(["a", "b", "*", *LONG])
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
NAMESPACES = st.sampled_from([("a",), ("a", "b"), ("*", "a"), ("b", "a"), ("b", "ü b")])
NAMESPACES |= st.sampled_from([LONG, (*LONG, "a"), ("aa",), ("*", "b", "a")])
KEYS = st.sampled_from(["k", "", ":.@*", "ß" * 30])
PLAIN = st.sampled_from(
    [None, True, 0, 1, 2.5, 2**70, "1", "10", "9", "b", "", [], [1]]
)
NESTED = PLAIN | st.dictionaries(st.sampled_from("pq"), PLAIN, max_size=2)
VALUES = st.dictionaries(st.sampled_from("ef"), NESTED, max_size=2)
ORDERS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
OPERATIONS = st.dictionaries(ORDERS, PLAIN, min_size=1, max_size=2)
FILTERS = st.none() | st.dictionaries(
    st.sampled_from("efg"), NESTED | OPERATIONS, max_size=2
)
LIMITS = st.integers(0, 4), st.integers(0, 2)
CONDITIONS = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PREFIXES)
NAMED = st.none() | st.lists(CONDITIONS, max_size=2).map(tuple)
DEPTHS = st.none() | st.integers(0, 3)
OPS = st.one_of(
    st.tuples(NAMESPACES, KEYS).map(lambda drawn: GetOp(*drawn)),
    st.tuples(NAMESPACES, KEYS, VALUES).map(lambda drawn: PutOp(*drawn)),
    st.tuples(NAMESPACES, KEYS, st.none()).map(lambda drawn: PutOp(*drawn)),
    st.tuples(PREFIXES, st.none() | FILTERS, *LIMITS).map(
        lambda drawn: SearchOp(*drawn)
    ),
    st.tuples(NAMED, DEPTHS, *LIMITS).map(lambda drawn: ListNamespacesOp(*drawn)),
)


class ReferenceStore:
    """InMemoryStore without its known divergences: the order of SqliteStore, no
    namespaces without items, and filters that never raise."""

    def __init__(self) -> None:
        self.store, self.written = InMemoryStore(), list[Any]()

    def batch(self, ops: list[Any]) -> list[Any]:
        data = self.store._data
        for namespace in [each for each in data if not data[each]]:
            del data[namespace]
        found = [self._search(op) if type(op) is SearchOp else op for op in ops]
        for at, op in enumerate(ops):
            if type(op) is not SearchOp and type(op) is not PutOp:
                if type(op) is not GetOp or op.namespace in data:
                    (found[at],) = self.store.batch([op])
                else:
                    found[at] = None
        self.store.batch([op for op in ops if type(op) is PutOp])
        for op in [op for op in ops if type(op) is PutOp]:
            place = (op.namespace, op.key)
            self.written = [each for each in self.written if each != place] + [place]
        return [None if type(each) is PutOp else each for each in found]

    def _search(self, op: SearchOp) -> list[Any]:
        whole = self.store.search(op.namespace_prefix, limit=10_000)
        whole.sort(key=lambda item: self.written.index((item.namespace, item.key)))
        found = [item for item in reversed(whole) if self._is_match(item, op.filter)]
        return found[op.offset : op.offset + op.limit]

    def _is_match(self, item: Any, filter: Any) -> bool:  # noqa: A002
        alone = InMemoryStore()
        alone.put(("a",), "k", item.value)
        try:
            return bool(alone.search(("a",), filter=filter))
        except (TypeError, ValueError):
            return is_match(item.value, filter)


def show(results: list[Any]) -> list[Any]:
    def show_one(each: Any) -> Any:
        if isinstance(each, list):
            return [show_one(item) for item in each]
        return (
            each
            if not hasattr(each, "value")
            else (each.namespace, each.key, each.value)
        )

    return [show_one(each) for each in results]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batches=st.lists(st.lists(OPS, max_size=6), max_size=6),
    part=st.sampled_from([None, 1]),
)
def test_batches_answer_like_in_memory_store(
    client: Client, batches: list[list[Any]], part: int | None
) -> None:
    ours = MemoryHubStore(client, name=f"{time.time_ns()}", person_part=part)
    reference = ReferenceStore()
    if part is not None:
        # In one batch, writes to several threads have no order.
        batches = [[op] for ops in batches for op in ops]
    for ops in batches:
        assert show(ours.batch(ops)) == show(reference.batch(ops))


def build_sqlite_store() -> SqliteStore:
    store = SqliteStore(sqlite3.connect(":memory:", isolation_level=None))
    store.setup()
    return store


def answer(store: Any, value: Any, condition: Any) -> Any:
    """Return whether the filter finds the value, or the exception's name."""
    store.put(("a",), "k", value)
    try:
        return bool(store.search(("a",), filter={"f": condition}))
    except (TypeError, ValueError) as refusal:
        return type(refusal).__name__


#: Value, condition on its field `f`, and what the hub's store, InMemoryStore and
#: SqliteStore answer.
ANSWERS: list[tuple[Any, Any, list[Any]]] = [
    ({}, {"$ne": 1}, [True, True, False]),
    ({}, {"$ne": None}, [False, False, False]),
    ({}, None, [True, True, True]),
    ({}, {"$gt": 1}, [False, "TypeError", False]),
    ({"f": "b"}, {"$lt": 5}, [False, "ValueError", True]),
    ({"f": "b"}, {"$gt": "a"}, [True, "ValueError", True]),
    ({"f": "10"}, {"$gt": "9"}, [True, True, False]),
    ({"f": "10"}, {"$gt": 9}, [True, True, True]),
    ({"f": {"p": 1, "q": 2}}, {"p": 1}, [True, True, "ValueError"]),
    ({"f": 1}, {}, [False, False, True]),
    ({"f": True}, 1, [True, True, True]),
    ({"f": [1]}, [1], [True, True, True]),
    ({"f": [1]}, {"$eq": [1]}, [True, True, False]),
    ({"f": 1}, {"$in": [1]}, ["ValueError", "ValueError", "ValueError"]),
]


def test_filters_have_one_meaning(store: MemoryHubStore) -> None:
    stores = [store, InMemoryStore(), build_sqlite_store()]
    for value, condition, answers in ANSWERS:
        found = [answer(each, value, condition) for each in stores]
        assert found == answers, (value, condition)


SAME = st.sampled_from([1, 2, 2.5, "b", "c", True, None])


@given(st.lists(st.tuples(st.sampled_from("kl"), SAME), max_size=6), ORDERS, SAME)
def test_filters_of_numbers_answer_like_sqlite_store(
    puts: list[Any], name: str, operand: Any
) -> None:
    theirs, values = build_sqlite_store(), dict(puts)
    for key, value in values.items():
        theirs.put(("a",), key, {"f": value})
    same = [key for key, value in values.items() if type(value) is type(operand)]
    if operand is None or operand is True:
        same, name = list(values), "$eq"
    filter_ = {"f": {name: operand}}
    found = {key for key in same if is_match({"f": values[key]}, filter_)}
    assert found == {*list_found(theirs, "a", filter=filter_)} & {*same}


# Order, times and lifetimes


def test_search_is_by_last_write_and_rewrite_resets_times(
    store: MemoryHubStore,
) -> None:
    before = datetime.now(UTC)
    for key in "abcab":
        store.put(ANN, key, {"text": key})
    assert list_found(store) == ["b", "a", "c"]
    old = store.get(ANN, "c")
    store.put(ANN, "c", {})
    new = store.get(ANN, "c")
    assert old
    assert new
    assert before < old.created_at < new.created_at == new.updated_at
    store.batch([PutOp(ANN, "c", {}), PutOp(ANN, "d", {}), PutOp(ANN, "c", {})])
    assert list_found(store, limit=2) == ["c", "d"]


def test_store_keeps_a_copy(store: MemoryHubStore) -> None:
    value = {"list": [1]}
    store.put(ANN, "k", value)
    value["list"].append(2)
    found = store.get(ANN, "k")
    assert found
    assert found.value == {"list": [1]}
    found.value["list"].append(3)
    assert store.search(ANN)[0].value == {"list": [1]}


def test_item_is_gone_after_its_ttl(client: Client) -> None:
    ttl: TTLConfig = {"default_ttl": 1 / 60, "refresh_on_read": True}
    store = MemoryHubStore(client, ttl=ttl)
    store.put(ANN, "short", {})
    store.put(ANN, "kept", {}, ttl=None)
    store.put(ANN, "long", {}, ttl=1.5)
    ends = time.monotonic() + 2.1
    first = client.send(keys.get(store.thread, "i.memories.ann.:long"))
    assert store.get(ANN, "long", refresh_ttl=False)
    assert client.send(keys.get(store.thread, "i.memories.ann.:long")) == first
    assert list_found(store, filter={"none": 1}) == []
    assert store.get(ANN, "long")
    again = client.send(keys.get(store.thread, "i.memories.ann.:long"))
    assert again["set_at"] > first["set_at"]
    time.sleep(max(0, ends - time.monotonic()))
    assert store.get(ANN, "short") is None
    assert list_found(store) == ["long", "kept"]


# Words


def test_query_ranks_items_by_their_words(store: MemoryHubStore) -> None:
    store.put(ANN, "seat", {"text": "Likes a window seat, by a window."})
    store.put(ANN, "meal", {"text": "Eats no meat.", "kind": "role:user"})
    store.put(BEN, "seat", {"text": "Any seat but at a window"})
    store.put(BEN, "old", {"text": "window window window"})
    store.put(BEN, "old", {"text": "door"})
    found = store.search(("memories",), query="window")
    assert [(item.namespace, item.key) for item in found] == [
        *((ANN, "seat"), (BEN, "seat"), (BEN, "old"), (ANN, "meal"))
    ]
    assert [item.score is None for item in found] == [False, False, True, True]
    assert list_found(store, *ANN, query='"role:user" in:none', limit=1) == ["meal"]
    assert len(list_found(store, query="a-b_c.d/e " * 300)) == 4


# Persons


def test_persons_have_threads_of_their_own(
    persons: MemoryHubStore, client: Client
) -> None:
    for namespace in (ANN, BEN, ("shared",), (*ANN, "deep"), LONG):
        persons.put(namespace, "k", {"of": [*namespace]})
    names = [each["thread"] for each in client.each(threads.list_all())]
    assert len(names) == 4
    assert not any("ann" in name for name in names)
    again = MemoryHubStore(client, name="persons", person_part=1)
    assert {item.namespace: item.value["of"] for item in again.search(())} == {
        each: [*each] for each in (ANN, BEN, ("shared",), (*ANN, "deep"), LONG)
    }
    assert again.list_namespaces(prefix=("*", "ann")) == [ANN, (*ANN, "deep")]


def test_erasing_a_person_erases_the_items(
    persons: MemoryHubStore, client: Client, shared: Instance, project: str
) -> None:
    persons.put(ANN, "k", {"text": "secret"})
    persons.put(BEN, "k", {})
    found = client.send(subjects.resolve("ann"))
    scopes = "--scopes=subject:forget"
    made = shared.managed("create_key", project, scopes).strip()
    with Client(client.base.removesuffix("/api/v1"), made) as officer:
        plan = officer.send(erasures.plan(found["id"], "subject", "test"))
        confirming = erasures.confirm(plan["id"], plan["plan_token"], plan["count"])
        officer.send(confirming)
    with pytest.raises(Gone):
        persons.get(ANN, "k")
    assert [item.namespace for item in persons.search(())] == [BEN]


def test_bound_key_reads_no_other_person(
    persons: MemoryHubStore, served: Server, shared: Instance, project: str
) -> None:
    persons.put(ANN, "k", {"text": "secret"})
    with connect_bound(served, shared, project, "ben") as client:
        theirs = MemoryHubStore(client, name="persons", person_part=1)
        assert theirs.get(ANN, "k") is None
        assert theirs.search((), query="secret") == []
        assert theirs.list_namespaces() == []
        theirs.put(BEN, "k", {})
        assert theirs.list_namespaces() == [BEN]
        with pytest.raises(NotFound):
            theirs.put(ANN, "k", {})
    assert persons.get(ANN, "k")


# Refusals


def test_store_raises_the_exceptions_of_the_client(
    store: MemoryHubStore, served: Server, shared: Instance, project: str
) -> None:
    with pytest.raises(TooLarge):
        store.put(ANN, "k", {"text": "x" * 10_000_000})
    with pytest.raises(TooLarge):
        store.put(ANN, "k", {"text": "x" * 300_000})
    with pytest.raises(Invalid):
        store.put(ANN, "k", {"text": "\0"})
    values: list[Any] = [{"f": {1}}, {"f": float("nan")}, {1: 2}]
    for value in values:
        with pytest.raises((TypeError, ValueError)):
            store.put(ANN, "k", value)
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp(("a.b",), "k")])
    assert store.search(()) == []
    reader = shared.managed("create_key", project, "--scopes=memory:read").strip()
    with Client(served.url, reader) as client, pytest.raises(Forbidden):
        MemoryHubStore(client).put(ANN, "k", {})


# Clients


async def test_async_client_reads_and_writes(served: Server, key: str) -> None:
    client = AsyncClient(served.url, key)
    store = MemoryHubStore(client)
    await store.aput(ANN, "k", {"text": "window"})
    assert [item.key for item in await store.asearch((), query="window")] == ["k"]
    await store.adelete(ANN, "k")
    assert await store.aget(ANN, "k") is None
    with pytest.raises(TypeError):
        store.get(ANN, "k")
    await client.close()
    with Client(served.url, key) as waiting:
        await MemoryHubStore(waiting).aput(ANN, "k", {})
        assert await MemoryHubStore(waiting).alist_namespaces() == [ANN]


def test_graph_remembers_across_threads(store: MemoryHubStore) -> None:
    def count(state: Any, runtime: Runtime[Any]) -> dict[str, int]:
        assert runtime.store
        item = runtime.store.get(ANN, "visits")
        visits = item.value["n"] + 1 if item else 1
        runtime.store.put(ANN, "visits", {"n": visits})
        return {"visits": visits}

    graph: Any = StateGraph(Visits).add_node(count).add_edge(START, "count")
    graph = graph.compile(store=store)
    assert [graph.invoke({})["visits"] for _ in range(2)] == [1, 2]


TEXTS = st.text(st.characters(codec=None))


@given(st.lists(TEXTS.filter(lambda label: "." not in label), max_size=4), TEXTS)
def test_names_are_reversible_and_below_their_glob(labels: list[str], key: str) -> None:
    thread, namespace = ItemThread("store:main"), tuple(labels)
    name = thread.build_name(namespace, key)
    assert len(name) <= 128
    assert is_long(name) or thread.parse_name(name) == (namespace, key)
    for depth in range(len(labels) + 1):
        glob = thread.build_glob(namespace[:depth])
        assert name.startswith(glob.removesuffix("*"))
