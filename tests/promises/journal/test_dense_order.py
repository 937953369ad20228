"""P2: events are numbered 1..n and slots 0..n-1, whoever writes at once."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest

from tests.harness.instances import UNLIMITED, Instance
from tests.promises.journal.clients import Client, at_once, percentile

APPEND = "tests.promises.journal.appender:append"
HTTP_CLIENTS = 16
RACE_SECONDS = 240

# The time is that of a busy machine.
pytestmark = pytest.mark.timeout(300)


@pytest.mark.promise("P2", load="8 processes × 100 appends")
@pytest.mark.grown
def test_eight_processes_append_to_one_thread(instance: Instance) -> None:
    instance.call("tests.promises.journal.appender:make", "acme")
    told = race(instance, processes=8, appends=100)
    assert_dense(instance, told, wanted=800)


@pytest.mark.promise("P2", load="{processes} processes × {appends} appends")
@pytest.mark.parametrize(
    ("processes", "appends"),
    [(3, 100), pytest.param(8, 400, marks=pytest.mark.nightly)],
)
def test_processes_append_to_one_thread(
    instance: Instance, processes: int, appends: int
) -> None:
    instance.call("tests.promises.journal.appender:make", "acme")
    told = race(instance, processes=processes, appends=appends)
    assert_dense(instance, told, wanted=processes * appends)


@pytest.mark.promise("P2", load=f"{HTTP_CLIENTS} HTTP clients × {{appends}} appends")
@pytest.mark.parametrize(
    "appends", [50, pytest.param(400, marks=pytest.mark.nightly)], ids=str
)
def test_sixteen_http_clients_append_to_one_thread(
    instance: Instance, key: str, appends: int
) -> None:
    def write(client: Client, number: int) -> list[dict[str, Any]]:
        answers = [client.append("t-1", f"{number}/{n}") for n in range(appends)]
        assert {answer.status for answer in answers} == {201}
        return [
            {"content": f"{number}/{n}", "seconds": answer.seconds, **answer.body}
            for n, answer in enumerate(answers)
        ]

    with instance.serve(**UNLIMITED) as server:
        written = at_once(write, clients=HTTP_CLIENTS, port=server.port, key=key)
        server.stop()
    told = [each for client in written for each in client]
    assert_dense(instance, told, wanted=HTTP_CLIENTS * appends)


def race(instance: Instance, *, processes: int, appends: int) -> list[dict[str, Any]]:
    """Let processes append at once; return the outcomes of each process."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(instance.start(APPEND, "acme", "t-1", number, appends))
            for number in range(processes)
        ]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        outcomes = [process.communicate(timeout=RACE_SECONDS) for process in started]
    assert [errors for _, errors in outcomes if errors] == []
    # Logs may stand before it.
    told = [json.loads(out.splitlines()[-1]) for out, _ in outcomes]
    return [each for process in told for each in process]


def assert_dense(
    instance: Instance, told: list[dict[str, Any]], *, wanted: int
) -> None:
    """Assert that all acknowledged messages stand at their indexes, and no others."""
    assert [each["code"] for each in told if "code" in each] == []
    stored = json.loads(
        instance.call("tests.promises.journal.appender:show", "acme", "t-1")
    )
    assert stored["indexes"] == list(range(wanted))
    # The first event made the thread.
    assert stored["seqs"] == list(range(1, wanted + 2))
    assert sorted(each["seq"] for each in told) == list(range(2, wanted + 2))
    assert sorted(each["index"] for each in told) == list(range(wanted))
    assert len(set(stored["contents"])) == wanted
    for each in told:
        assert stored["contents"][each["index"]] == each["content"]
    assert percentile((each["seconds"] for each in told), 0.99) < 2
    assert f"{wanted + 1:,} events" in instance.managed("verify", "--all")
