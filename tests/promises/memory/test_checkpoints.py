"""P10: a restore is all or nothing, and a checkpoint costs what changed."""

from __future__ import annotations

import json
import random
import signal
import string
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.services.access.api_keys import Agent
from tests.harness.instances import Instance
from tests.oracles import memory_acts as acts

pytestmark = pytest.mark.timeout(600)

KB = 1_024


def noise(size: int, seed: int = 1) -> str:
    """Return text that cannot be compressed to much less."""
    return "".join(random.Random(seed).choices(string.printable[:94], k=size))


def growth(work: Callable[[], object]) -> int:
    """Return the bytes by which the database grew."""
    before = count_stored_bytes()
    work()
    return count_stored_bytes() - before


def count_stored_bytes() -> int:
    """Return the bytes of SQLite's pages in use, or of PostgreSQL's rows.

    PostgreSQL's files tell nothing here: new rows reuse the room that rolled-back tests
    left, as long as there is some.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT (page_count - freelist_count) * page_size FROM"
                " pragma_page_count, pragma_freelist_count, pragma_page_size"
            )
        else:
            cursor.execute(" UNION ALL ".join(map(row_bytes, tables())))
        return sum(int(size) for (size,) in cursor.fetchall())


def tables() -> list[str]:
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
    return [name for name in names if name.startswith("memoryhub_")]


def row_bytes(table: str) -> str:
    return f"SELECT coalesce(sum(pg_column_size(each.*)), 0) FROM {table} AS each"


def statements(work: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        work()
    return [each["sql"].split(" ", 2)[0] for each in queries]


@pytest.mark.promise("P10", load="killed at each write of a restore")
@pytest.mark.slow
def test_restore_is_atomic(instance: Instance) -> None:
    """Keys, task, notes, rows and checkpoints are all as before, or all as after."""
    told = json.loads(instance.call("tests.promises.memory.restoring:kill_everywhere"))
    old, new = told["old"], told["new"]
    assert old != new
    *killed, (code, whole) = told["killed"]
    assert (code, whole) == (0, new)
    assert {code for code, _ in killed} == {-signal.SIGKILL}
    found = [shown for _, shown in killed]
    assert [shown for shown in found if shown not in (old, new)] == []
    # Only who dies after the commit leaves what is new; all before it, what was.
    assert found == [old] * (len(found) - 1) + [new]
    # Two events, rows of five keys, the head: it does write more than once.
    assert len(killed) > 4


@pytest.mark.django_db
@pytest.mark.promise("P10", load="{count} checkpoints of a state of {size} KB")
@pytest.mark.parametrize(("size", "count"), [(1, 100), (100, 50)])
def test_hundred_checkpoints_stay_small(agent: Agent, size: int, count: int) -> None:
    """The checkpoints take at most 100 KB; the last costs as much as the first."""
    acts.set_key(agent, "k", noise(size * KB))
    acts.take(agent)

    def take_many() -> None:
        for number in range(2, count):
            acts.take(agent, f"c-{number}")

    first = statements(lambda: acts.take(agent, "first"))
    added = growth(take_many)
    assert statements(lambda: acts.take(agent, "last")) == first
    assert added <= 100 * KB


@pytest.mark.django_db
@pytest.mark.promise("P10", load="1,000 notes of 1 KB")
def test_notes_write_linearly(agent: Agent) -> None:
    """A thousand notes take 2.5 MB, and the second half as much as the first."""
    acts.add_notes(agent, "first")

    def add(begin: int) -> None:
        for number in range(begin, begin + 500):
            acts.add_notes(agent, noise(KB, number))

    halves = [growth(lambda: add(0)), growth(lambda: add(500))]
    assert min(halves) >= 500 * KB
    assert sum(halves) <= 2.5 * 1_000 * KB
    assert halves[1] <= 1.2 * halves[0]
