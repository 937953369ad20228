"""Reads change nothing: a GET of every page leaves every table alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from memoryhub.journal.writing.writer import writer
from memoryhub.kernel import state_json
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.conftest import DATABASES
from tests.inspector.routes import SINCE, Route, list_routes, make_family, variants

pytestmark = pytest.mark.django_db

#: Tables that a read or a sign-in may write; the engine does not use them.
SPARED = (
    *("django_session", "memoryhub_signinlink", "memoryhub_signinfailure"),
    *("memoryhub_auditentry", "memoryhub_instance"),
)
#: Queries that each page is asked with; pages ignore unknown parameters.
QUERIES = (
    "",
    "at_seq=3&base=2&tab=messages&open=2,3&content=1",
    "at_turn=1&content=all&hide=slot&retention_idle_days=7",
    "at_seq=99&index=1&from=user",
    "q=-zzz&limit=1&sort=slots",
    "tab=working-set&level=0&from=2&to=6",
)
#: Write-only routes, which refuse a GET.
POSTED = {
    *("sign-out", "theme", "reopen", "paging-flush", "subject-look-up"),
    *("sso", "passkey-challenge", "passkey-proposal", "subject-readmit"),
    *("subject-reveal", "subject-unrestrict", "erasure-confirm", "erasure-cancel"),
    *("erasure-needles", "erasure-keep-out", "event-undo", "episode-retry"),
    *("episodes-consolidate", "paging-prefetch-clear", "turn-mark"),
}
#: Routes that redirect; the only project of an operator opens directly.
REDIRECTED = {
    *("home", "tail", "working-set", "turn-go", "thread-facts", "thread-fact-add"),
    *("thread-fact-act", "thread-blocks", "thread-block-add", "thread-block-edit"),
    "thread-recall",
}
#: Routes whose `from` is a seq; a sender's name there is refused.
NUMBERED = {"paging", "paging-export", "facts", "episodes"}
#: GET routes of single sign-on, which is off here.
OFF = {"sso-callback"}
#: Routes of records that the fork lacks, since it left the parent earlier.
LATER = {"key", "key-act", "checkpoint-restore", "checkpoint-delete"}
#: Routes of records that did not exist as of event 3.
UNSAID = {"slot"}


@pytest.fixture
def known(agent: Agent) -> dict[str, str]:
    return make_family(agent, remembering=True)


def addresses(
    known: dict[str, str], queries: Iterable[str]
) -> Iterator[tuple[Route, str]]:
    """List every address, in the thread and in its fork, with these queries."""
    for route in list_routes():
        for choice in variants(route):
            for thread in ("t-1", "t-1.alt"):
                path = route.fill({**known, "thread": thread, **choice})
                for query in queries:
                    yield route, f"{path}?{SINCE}&{query}"
                if "thread" not in route.parameters:
                    break


def digest() -> str:
    """Digest all stored rows, and the state that the writer keeps in memory."""
    found = hashlib.sha256()
    for name in DATABASES:
        for table, rows in iter_stored(name):
            found.update(repr((name, table, rows)).encode())
    for thread, head in writer.journal.heads._kept.list_items():
        kept = (thread, state_json.to_json(head.state), head.chain, head.listed_at)
        found.update(repr(kept).encode())
    return found.hexdigest()


def iter_stored(name: str) -> Iterator[tuple[str, list[str]]]:
    connection = connections[name]
    for table in sorted(connection.introspection.table_names()):
        if table.startswith(SPARED):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            yield table, sorted(repr(_to_plain(row)) for row in cursor.fetchall())


def _to_plain(row: tuple[Any, ...]) -> list[Any]:
    return [bytes(cell) if isinstance(cell, memoryview) else cell for cell in row]


def look(client: Client, method: str, address: str) -> int:
    """Return the status of the answer, after the whole answer has been drawn."""
    answer: Any = client.generic(method, address)
    if answer.streaming:
        b"".join(answer.streaming_content)
    return int(answer.status_code)


@pytest.mark.promise("looking", load="a write", control=True)
def test_database_digest_sees_a_write(agent: Agent, known: dict[str, str]) -> None:
    before = digest()
    assert digest() == before
    factories.append(agent, "t-1.alt", "more")
    assert digest() != before


@pytest.mark.timeout(300)
@pytest.mark.promise("looking", load="GET and HEAD of every address")
@pytest.mark.parametrize(
    ("method", "queries"),
    [
        pytest.param("GET", QUERIES, id="GET"),
        # The same views, so fewer ways; one of them with a seq beyond the head.
        pytest.param("HEAD", QUERIES[2:4], id="HEAD"),
    ],
)
def test_reading_every_page_changes_nothing(
    owner: Client, known: dict[str, str], method: str, queries: tuple[str, ...]
) -> None:
    before = digest()
    statuses: dict[str, set[int]] = {}
    for route, address in addresses(known, queries):
        status = look(owner, method, address)
        statuses.setdefault(route.name, set()).add(status)
    assert statuses == {
        route.name: {405}
        if route.name in POSTED
        else {302}
        if route.name in REDIRECTED
        else {404 if method == "GET" else 405}
        if route.name in OFF
        else {200, 422}
        if route.name in NUMBERED
        else {200, 404}
        if route.name in LATER or (route.name in UNSAID and method == "GET")
        else {200}
        for route in list_routes()
    }
    assert digest() == before
