"""Writers of several processes at one thread, which fills up or ends meanwhile."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.harness.forks import Process
from tests.harness.instances import Instance

pytestmark = pytest.mark.timeout(900)

Told = list[dict[str, Any]]
LIMIT = 100


class Field:
    """Processes that race each other to one thread after another."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self.processes = processes

    def race(self, thread: str, *, retire_after: int | None = None) -> Told:
        """Return the outcome of each append; the first process may end the thread."""
        for number, process in enumerate(self.processes):
            ends = retire_after is not None and number == 0
            assert process.stdin is not None
            process.stdin.write(f"{thread} {retire_after}\n" if ends else f"{thread}\n")
            process.stdin.flush()
        return [each for process in self.processes for each in _told(process)]


def _told(process: Process) -> Told:
    assert process.stdout is not None
    # Logs may stand before it.
    for line in process.stdout:
        if line.startswith("["):
            told: Told = json.loads(line)
            return told
    raise AssertionError(process.communicate())


@contextmanager
def racing(
    instance: Instance, *, processes: int, writers: int, each: int
) -> Iterator[Field]:
    """Start all writers together, shared out among the processes."""
    given = "tests.promises.journal.racers:race", "acme", writers // processes, each
    with ExitStack() as stack:
        started = [
            stack.enter_context(instance.start(*given)) for _ in range(processes)
        ]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()
        yield Field(started)


def list_stored_threads(instance: Instance) -> dict[str, dict[str, Any]]:
    shown = json.loads(instance.call("tests.promises.journal.racers:show", "acme"))
    by_name = {each["name"]: each for each in shown}
    assert len(by_name) == len(shown), "two threads have one name"
    return by_name


def assert_all_there(found: dict[str, Any], told: Told) -> None:
    """Assert that exactly the acknowledged messages are stored, at their indexes."""
    kept = {each["index"]: each["content"] for each in told if "index" in each}
    assert found["indexes"] == list(range(len(kept)))
    assert dict(enumerate(found["contents"])) == kept


@pytest.mark.parametrize(
    ("processes", "rounds"),
    [
        (2, 6),
        pytest.param(1, 30, marks=pytest.mark.nightly),
        pytest.param(2, 30, marks=pytest.mark.nightly),
    ],
)
def test_slot_limit_holds_under_race(
    instance: Instance, processes: int, rounds: int
) -> None:
    """Sixteen writers send more than the thread may hold, each time."""
    names = [f"t-{number:02}" for number in range(rounds)]
    instance.call("tests.promises.journal.racers:make", "acme", names, LIMIT)
    with racing(instance, processes=processes, writers=16, each=10) as field:
        told = {name: field.race(name) for name in names}
    found = list_stored_threads(instance)
    for name in names:
        assert_all_there(found[name], told[name])
        assert len(found[name]["indexes"]) == LIMIT
        refused = [each["code"] for each in told[name] if "code" in each]
        assert refused == ["thread_full"] * (160 - LIMIT)
    instance.managed("verify", "--all")


@pytest.mark.parametrize(
    ("threads", "each"), [(5, 25), pytest.param(60, 50, marks=pytest.mark.nightly)]
)
def test_append_never_reaches_an_orphan(
    instance: Instance, threads: int, each: int
) -> None:
    """2,000 appends, or 48,000, by two processes while each thread is retired.

    Retiring shows that no append is lost or comes after the end. The same race with
    erasing, where the thread's rows go as well, is `test_forget_of_a_part_is_final`.
    """
    chance = random.Random(48_000)  # a seed repeats it
    instance.call("tests.promises.journal.appender:make", "acme")
    names = [f"t-{number:02}" for number in range(threads)]
    with racing(instance, processes=2, writers=16, each=each) as field:
        told = {
            name: field.race(name, retire_after=chance.randrange(each, each * 6))
            for name in names
        }
    assert sum(map(len, told.values())) == threads * 16 * each
    found = list_stored_threads(instance)
    for name in names:
        assert_all_there(found[name], told[name])
        refused = [each["code"] for each in told[name] if "code" in each]
        assert set(refused) == {"thread_erased"}
        assert found[name]["types"][-1] == "thread.retired"
        assert found[name]["types"].count("thread.created") == 1
    instance.managed("verify", "--all")


@pytest.mark.promise(
    "P2", load="{processes} processes × {appends}, half of them killed"
)
@pytest.mark.parametrize(
    ("processes", "appends"),
    [(3, 100), pytest.param(8, 400, marks=pytest.mark.nightly)],
)
def test_indexes_dense_after_kill(
    instance: Instance, processes: int, appends: int
) -> None:
    """Every other process is killed at some append; no index is missing or lost."""
    chance = random.Random(400)  # a seed repeats it
    instance.call("tests.promises.journal.appender:make", "acme")
    program = "tests.promises.journal.racers:append_aloud"
    told: Told = []
    with ExitStack() as stack:
        started = [
            stack.enter_context(instance.start(program, "acme", "t-1", appends))
            for _ in range(processes)
        ]
        for process in started[::2]:
            told += _read_first(process, chance.randrange(appends // 4, appends))
            process.kill()
        # What it said before it died, and what the others say to their end.
        for process in started:
            told += _read_first(process, appends)
    (found,) = list_stored_threads(instance).values()
    assert found["indexes"] == list(range(len(found["contents"])))
    assert len(told) < processes * appends
    for each in told:
        assert found["contents"][each["index"]] == each["content"]
    # At most the one append that each of them had under way.
    assert len(found["contents"]) - len(told) <= len(started[::2])
    assert found["types"] == ["thread.created"] + ["slot.appended"] * len(
        found["contents"]
    )
    instance.managed("verify", "--all")


def _read_first(process: Process, count: int) -> Told:
    """Return so many acknowledged appends of the process, or all until its end."""
    assert process.stdout is not None
    told: Told = []
    while len(told) < count and (line := process.stdout.readline()):
        # The last words of a process that is killed may be half a line.
        if line.startswith("{") and line.endswith("}\n"):
            told.append(json.loads(line))
    return told
