"""P1: an acknowledged write is there, whenever and however the server ends."""

from __future__ import annotations

import random
import sqlite3
from http.client import HTTPConnection

import pytest

from tests.harness.instances import Instance
from tests.promises.journal.writers import Writers, ask, build_slot, list_stored_slots

THREADS = ["t-1", "t-2", "t-3"]
SEED = 20_261_121
QUICK_ROUNDS, ROUNDS = 5, 20


@pytest.fixture
def key(instance: Instance) -> str:
    instance.managed("create_project", "acme")
    return instance.managed("create_key", "acme").strip()


def check(port: int, writers: Writers) -> None:
    """Assert that every promise is kept, and no index is missing or given twice."""
    for name, promised in writers.promised.items():
        slots = list_stored_slots(port, writers.key, name)
        assert [each["index"] for each in slots] == list(range(len(slots)))
        contents = {each["index"]: each["content"] for each in slots}
        assert {index: contents.get(index) for index in promised} == promised
        said = [str(content) for content in contents.values()]
        assert len(said) == len(set(said)), "an append was stored twice"
        # At most what each writer had under way at each kill.
        assert len(slots) - len(promised) <= writers.count * ROUNDS


def kill_in_rounds(instance: Instance, key: str, rounds: int) -> None:
    chance = random.Random(SEED)
    writers = Writers(key=key, threads=THREADS)
    for _ in range(rounds):
        with instance.serve() as server:
            check(server.port, writers)
            writers.start(server.port)
            writers.await_more(chance.randrange(20, 200))
            server.kill()
        writers.join()
    with instance.serve() as server:
        check(server.port, writers)
        assert server.stop() in (0, -15)
    assert writers.refused == []
    instance.managed("verify", "--all")
    if (instance.data / "memoryhub.sqlite3").exists():
        with sqlite3.connect(instance.data / "memoryhub.sqlite3") as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.promise("P1", load=f"8 writers, {QUICK_ROUNDS} kills")
@pytest.mark.timeout(300)
def test_acknowledged_write_is_durable(instance: Instance, key: str) -> None:
    kill_in_rounds(instance, key, QUICK_ROUNDS)


@pytest.mark.promise("P1", load=f"8 writers, {ROUNDS} kills")
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_acknowledged_write_is_durable_through_twenty_kills(
    instance: Instance, key: str
) -> None:
    kill_in_rounds(instance, key, ROUNDS)


@pytest.mark.promise("P1", load="8 writers, a stop")
def test_graceful_stop_drains_the_queue(instance: Instance, key: str) -> None:
    """Under load, a client without an answer may have written; others have."""
    writers = Writers(key=key, threads=THREADS)
    with instance.serve() as server:
        writers.start(server.port)
        writers.await_more(200)
        assert server.stop() in (0, -15)
    writers.join()
    assert set(writers.refused) <= {503}
    with instance.serve() as server:
        check(server.port, writers)
    instance.managed("verify", "--all")


def follow(port: int, key: str, thread: str) -> HTTPConnection:
    """Return a stream that has begun."""
    line = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}
    line.request("GET", f"/api/v1/threads/{thread}/events?after=0", headers=headers)
    response = line.getresponse()
    assert response.status == 200
    while response.readline().strip() != b"id: 1":
        assert not response.closed
    return line


@pytest.mark.promise("P1", load="a stream, a stop")
def test_stop_waits_for_no_follower(instance: Instance, key: str) -> None:
    """An open stream delays the server's stop by its grace at most."""
    with instance.serve() as server:
        assert (
            ask(server.port, key, "POST", "/threads/t-1/slots", build_slot("x"))[0]
            == 201
        )
        line = follow(server.port, key, "t-1")
        try:
            assert server.stop() in (0, -15)
        finally:
            line.close()
