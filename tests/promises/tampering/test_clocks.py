"""P23: clocks do not affect the order, and no clock ends anything early."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from memoryhub.queries.threads.events import list_events
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread
from tests.harness.instances import UNLIMITED, Instance
from tests.promises.journal.clients import Answer, Client
from tests.promises.tampering.timeshift import (
    AHEAD,
    BEHIND,
    build_shifted_env,
    build_steered_env,
)

pytestmark = pytest.mark.timeout(300)

#: While the clock is right, while it is behind, and while it is ahead.
APPENDS = 20
#: Of a busy machine, and of clocks that are put right.
SLACK = timedelta(seconds=10)


def serving(instance: Instance, stack: ExitStack, key: str, file: Path) -> list[Client]:
    """Run servers: one right, one whose clock will jump, one behind and one ahead.

    The first starts before the others, which compare themselves with it on SQLite.
    """

    def start(around: dict[str, str]) -> Client:
        server = stack.enter_context(instance.serve(**UNLIMITED, **around))
        return stack.enter_context(Client(server.port, key))

    right = start({})
    with ThreadPoolExecutor() as pool:
        others = [
            build_steered_env(file),
            build_shifted_env(BEHIND),
            build_shifted_env(AHEAD),
        ]
        return [right, *pool.map(start, others)]


def fetch_events(client: Client) -> list[dict[str, Any]]:
    answer = client.get("/threads/t-1/events?limit=200")
    assert answer.body["next"] is None
    items: list[dict[str, Any]] = answer.body["items"]
    return items


def assert_in_order(listed: list[dict[str, Any]], *, since: datetime) -> None:
    """Assert numbers in the order of commits, and increasing times of today."""
    assert [each["seq"] for each in listed] == list(range(1, len(listed) + 1))
    told = [each["payload"]["content"] for each in listed[1:]]
    assert told == list(range(len(listed) - 1))
    times = [datetime.fromisoformat(each["at"]) for each in listed]
    assert times == sorted(times)
    assert since - SLACK < times[0]
    assert times[-1] < datetime.now(UTC) + SLACK


def assert_refused(answer: Answer) -> None:
    assert (answer.status, answer.body.get("code")) == (503, "clock_skew")
    assert answer.headers["retry-after"] == "10"


def degraded(client: Client) -> list[str]:
    parts: list[str] = client.ask("GET", "/health/ready", None, {}).body["degraded"]
    return parts


@pytest.mark.promise("P23", load="2 processes that are right, 1 behind, 1 ahead, jumps")
def test_clocks_that_differ_and_jump_reorder_nothing(
    instance: Instance, key: str, tmp_path: Path
) -> None:
    began, file = datetime.now(UTC), tmp_path / "clock"
    instance.call("tests.promises.tampering.timeshift:keep_for", 30)
    with ExitStack() as stack:
        clients = serving(instance, stack, key, file)
        for n in range(3 * APPENDS):
            file.write_text(["+0", BEHIND, AHEAD][n // APPENDS])
            answer = clients[n % 2].append("t-1", n)
            assert (answer.status, answer.body.get("index")) == (201, n)
            assert_refused(clients[2 + n % 2].append("t-1", "never"))
        for client in clients[2:]:
            assert_refused(client.get("/threads/t-1"))
        listed = [fetch_events(client) for client in clients[:2]]
        found = ["clock" in degraded(client) for client in clients]
        # To this one the worker's lease has ended, and the thread has idled for months.
        told = instance.call(
            "tests.promises.tampering.timeshift:reconcile", **build_shifted_env(AHEAD)
        )
    for each in listed:
        assert len(each) == 3 * APPENDS + 1
        assert_in_order(each, since=began)
    assert found == [False, False, True, True]
    assert rounds(told) == [{"done": {}, "threads": {"t-1": "open"}}]
    assert "61 events" in instance.managed("verify", "--all")


def rounds(told: str) -> list[Any]:
    """Return the lines that a process printed, without its log."""
    lines = [json.loads(line) for line in told.splitlines()]
    return [line for line in lines if "event" not in line]


@pytest.mark.promise("P23", load="1 process thrown back and ahead")
def test_clock_that_jumps_ends_nothing(instance: Instance, tmp_path: Path) -> None:
    """The worker goes on by the time that it has counted itself."""
    file = tmp_path / "clock"
    told = instance.call(
        "tests.promises.tampering.timeshift:reconcile_across_jumps",
        str(file),
        **build_steered_env(file),
    )
    found = rounds(told)
    assert [each["done"].get("retention") for each in found] == [0, 0, 0]
    assert [each["threads"] for each in found] == [{"t-1": "open"}] * 3


@pytest.mark.promise("P23", load="a writer whose clock jumps by months")
@pytest.mark.django_db
def test_writer_whose_clock_jumps_keeps_the_order(agent: Agent) -> None:
    """The order holds even while nobody has noticed the jump."""
    noon = datetime(2026, 5, 4, 12, tzinfo=UTC)
    for n, days in enumerate([0, -90, 1, 90, -1, 0]):
        with time_machine.travel(noon + timedelta(days=days), tick=False):
            append(agent, "t-1", n)
    listed = list_events(get_thread(agent))
    assert [each.seq for each in listed] == list(range(1, 8))
    payloads = [each.payload for each in listed[1:]]
    assert payloads == [{"content": n} for n in range(6)]
    times = [(each.at - noon).days for each in listed]
    assert times == [0, 0, 0, 1, 90, 90, 90]
