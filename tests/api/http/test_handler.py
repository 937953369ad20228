"""The lean handler answers as Django's own does, and the gate stands before both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.db import connections

from memoryhub.api.errors import IncompleteBodyError
from memoryhub.api.handler import build_application
from memoryhub.api.http import gate
from memoryhub.journal import writer
from memoryhub.queries.threads.readers import readers
from tests.api.bad_bodies import Case, build_message
from tests.api.client import SLOT, Answer, Client
from tests.cast import factories

pytestmark = pytest.mark.django_db(transaction=True)

REQUESTS = [
    Case(row="append", status=201, code="", body=build_message()),
    Case(row="put", method="PUT", target="/threads/t-9", body={}, status=201, code=""),
    Case(row="get", method="GET", target="/threads/t-1", status=200, code=""),
    Case(row="head", method="HEAD", target="/threads/t-1", status=200, code=""),
    Case(row="list", method="GET", target="/threads?limit=1", status=200, code=""),
    Case(row="absent", method="GET", target="/threads/x", status=404, code="not_found"),
    Case(row="route", method="GET", target="/nothing", status=404, code="not_found"),
    Case(row="root", method="GET", target="/", status=404, code="not_found"),
    Case(row="other", method="GET", target="/api/v2", status=404, code="not_found"),
    Case(row="json", body=b"{", status=400, code="invalid_json"),
    Case(row="value", body={}, status=422, code="missing"),
    Case(
        row="method",
        method="DELETE",
        target="/threads",
        status=405,
        code="method_not_allowed",
    ),
    Case(
        row="options",
        method="OPTIONS",
        target="/threads",
        status=405,
        code="method_not_allowed",
    ),
    Case(
        row="trace",
        method="TRACE",
        target="/stats",
        status=405,
        code="method_not_allowed",
    ),
    Case(row="document", method="GET", target="/openapi.json", status=200, code=""),
]


@pytest.fixture
def key(transactional_db: None) -> Iterator[str]:
    _, key = factories.make_key(factories.make_project("acme"))
    writer.start()
    readers.start()
    yield key
    readers.stop()
    writer.stop()
    connections.close_all()


def _client(key: str, settings: Any, *, lean: bool) -> Client:
    settings.LEAN_API = lean
    django: Any = get_asgi_application()
    return Client(key=key, app=build_application(django))


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.row)
async def test_both_handlers_answer_alike(key: str, settings: Any, case: Case) -> None:
    answers: list[Answer] = []
    for lean in (True, False):
        client = _client(key, settings, lean=lean)
        if not answers:
            await client.append("t-1", "hello")
        answer = await client.send(case.method, case.target, case.body)
        answers.append(answer)
    one, other = answers
    expected = 200 if case.row == "put" else case.status
    assert (one.status, other.status) == (case.status, expected)
    if case.code:
        assert one.comparable == other.comparable
        assert one.header("allow") == other.header("allow")
    elif case.method == "GET" and case.row != "append":
        assert one.body == other.body
    assert one.header("content-type") == other.header("content-type")
    assert one.header("cache-control") == other.header("cache-control") == "no-store"


async def test_reference_page_comes_from_our_own_files(key: str, settings: Any) -> None:
    for lean in (True, False):
        answer = await _client(key, settings, lean=lean).get("/docs")
        assert answer.status == 200
        assert (answer.header("content-type") or "").startswith("text/html")
        assert b"https://" not in answer.body
        assert b"swagger-ui-bundle.js" in answer.body


async def test_head_is_get_without_the_body(key: str, settings: Any) -> None:
    client = _client(key, settings, lean=True)
    await client.append("t-1", "hello")
    head = await client.send("HEAD", "/threads/t-1")
    get = await client.get("/threads/t-1")
    assert (head.status, head.body) == (200, b"")
    assert head.header("content-type") == get.header("content-type")
    follow = [("accept", "text/event-stream")]
    answer = await client.send("HEAD", "/threads/t-1/events", headers=follow)
    assert (answer.status, answer.header("content-type")) == (200, "application/json")


async def test_body_that_is_too_large_is_not_read_to_its_end(key: str) -> None:
    client = Client(key=key)
    declared = [("content-length", str(50_000_000))]
    answer = await client.post("/threads/t-1/slots", b"{", headers=declared)
    assert answer.status == 413
    assert answer.header("connection") == "close"
    chunks = [b" " * 65_536] * 800
    answer = await client.post("/threads/t-1/slots", b"", chunks=chunks)
    assert answer.status == 413
    # Thrown away behind the answer, so that a client that still sends can hear it.
    assert client.taken <= 20 + gate.LINGER_BYTES // 65_536 < 800
    assert answer.header("connection") == "close"


async def test_body_that_dawdles_is_given_up(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gate.BODY_SECONDS <= 15
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.05)

    async def dawdle() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    with pytest.raises(IncompleteBodyError):
        await gate.read_body({"headers": []}, dawdle)


async def test_client_that_leaves_is_given_up(key: str) -> None:
    async def leave() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(IncompleteBodyError):
        await gate.read_body({"headers": []}, leave)


async def test_error_of_ours_is_a_500_without_its_text(
    key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("canary")

    client = Client(key=key, app=gate.Gate(fail))
    answer = await client.post("/threads/t-1/slots", SLOT)
    assert (answer.status, answer.code) == (500, "internal")
    written = capsys.readouterr().out
    assert "RuntimeError" in written
    assert "canary" not in written + repr(answer.body)


async def test_database_that_is_away_is_a_503(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(key=key)
    await client.append("t-1", "hello")
    readers.stop()
    monkeypatch.setattr(writer, "_stopping", True)
    answer = (await client.append("t-1", "more"))[0]
    monkeypatch.setattr(writer, "_stopping", False)
    readers.start()
    assert (answer.status, answer.code) == (503, "queue_full")
    assert answer.header("retry-after") == "1"
