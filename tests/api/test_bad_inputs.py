"""The bad-input catalogue: what each input that is wrong must be answered."""

from __future__ import annotations

import pytest

from memoryhub.models import (
    Event,
    RequestKey,
    Slot,
    Snapshot,
    Subject,
    Thread,
    ThreadLabel,
    Turn,
)
from memoryhub.services.api_keys import Agent
from tests import factories
from tests.api.bad_bodies import BYTES, CANARY, NAMES, VALUES, Case
from tests.api.bad_requests import PATHS, QUERIES, REQUESTS, THREADS
from tests.api.client import Answer, Client

pytestmark = pytest.mark.django_db

CASES = [*BYTES, *VALUES, *NAMES, *PATHS, *QUERIES, *REQUESTS, *THREADS]
TABLES = (Thread, ThreadLabel, Event, Slot, Turn, Snapshot, Subject, RequestKey)
PROBLEM = {"type", "title", "status", "code", "detail", "errors", "request_id"}


@pytest.fixture
def thread(agent: Agent, api: Client) -> Thread:
    factories.append(agent, "t-1", "hello")
    return factories.get_thread(agent)


def rows() -> list[list[str]]:
    return [sorted(map(repr, table.objects.values_list())) for table in TABLES]


def assert_refused(answer: Answer, *, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.body
    assert answer.header("content-type") == "application/problem+json"
    assert answer.json.keys() == PROBLEM
    assert answer.json["status"] == status
    assert answer.header("x-request-id") == answer.json["request_id"]
    assert answer.header("cache-control") == "no-store"
    assert CANARY not in f"{answer.body!r}{answer.headers!r}"
    if status in (429, 503):
        assert answer.header("retry-after")
    if status == 405:
        assert answer.header("allow")


@pytest.mark.promise("P20")
@pytest.mark.promise("P21")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row)
async def test_it_is_refused(
    case: Case, api: Client, thread: Thread, capsys: pytest.CaptureFixture[str]
) -> None:
    api.connect()
    before = rows()
    answer = await api.send(
        case.method,
        case.target,
        case.body,
        headers=case.headers,
        **case.options,
    )
    assert_refused(answer, status=case.status, code=case.code)
    assert rows() == before
    assert CANARY not in capsys.readouterr().out
    assert (await api.get("/threads/t-1")).status == 200
