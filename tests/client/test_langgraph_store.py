"""LangGraph's store and a real server: differential against InMemoryStore."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("langgraph")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp
from langgraph.store.base import InvalidNamespaceError, SearchOp, TTLConfig
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from memoryhub_client import AsyncClient, Client, Forbidden, Gone, Invalid, TooLarge
from memoryhub_client import erasures, keys, subjects, threads
from memoryhub_client.langgraph_filters import is_match
from memoryhub_client.langgraph_items import ItemThread, is_long
from memoryhub_client.langgraph_store import MemoryHubStore
from tests.client.conftest import Hub
from tests.harness.instances import Instance, Server

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

LABELS = st.sampled_from(["a", "b", "*", "ü b", "langgraph", "y" * 70])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
KEYS = st.sampled_from(["k", "", ":.@*", "ß" * 30])
PLAIN = st.sampled_from(
    [None, True, 0, 1, 2.5, 2**70, "1", "10", "9", "b", "", [], [1]]
)
NESTED = PLAIN | st.dictionaries(st.sampled_from("pq"), PLAIN, max_size=2)
VALUES = st.dictionaries(st.sampled_from("ef"), NESTED, max_size=2)
ORDERS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
OPERATIONS = st.dictionaries(ORDERS, PLAIN, min_size=1, max_size=2)
FILTERS = st.dictionaries(st.sampled_from("efg"), NESTED | OPERATIONS, max_size=2)
LIMITS = {"limit": st.integers(0, 4), "offset": st.integers(0, 2)}
CONDITIONS = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PREFIXES)
OPS = st.one_of(
    st.builds(GetOp, NAMESPACES, KEYS),
    st.builds(PutOp, NAMESPACES, KEYS, VALUES),
    st.builds(PutOp, NAMESPACES, KEYS, st.none() | VALUES),
    st.builds(SearchOp, PREFIXES, st.none() | FILTERS, **LIMITS),
    st.builds(
        ListNamespacesOp,
        st.none() | st.lists(CONDITIONS, max_size=2).map(tuple),
        st.none() | st.integers(0, 3),
        **LIMITS,
    ),
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
        found = [item for item in reversed(whole) if self._matches(item, op.filter)]
        return found[op.offset : op.offset + op.limit]

    def _matches(self, item: Any, filter: Any) -> bool:  # noqa: A002
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
    for ops in batches:
        assert show(ours.batch(ops)) == show(reference.batch(ops))
