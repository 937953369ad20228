"""P1: an acknowledged write is there after a failover, and writes go on by themselves."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.harness import failover
from tests.harness.failover import Cluster
from tests.harness.instances import UNLIMITED, Instance, Server, instance
from tests.harness.parts import MissingPartError
from tests.promises.journal.clients import Client
from tests.promises.journal.writers import list_stored_slots
from tests.promises.live.test_live import Page, dial, session_of

#: Seconds from the kill to the next acknowledged write.
GAP_SECONDS = 30.0
#: Seconds for an open page to show what is acknowledged after the failover.
SHOWN_SECONDS = 15.0
LOAD_SECONDS = 3.0
THREADS = ("t-1", "t-2", "t-3")
CLIENTS = 6
ROUNDS, NIGHTLY_ROUNDS = 1, 3


@dataclass(slots=True, kw_only=True)
class Load:
    """Clients that append, and repeat each append until it is acknowledged."""

    port: int
    key: str
    #: Time and seq of each acknowledged append, by thread and content.
    acknowledged: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    #: Statuses that no client should see.
    wrong: Counter[int] = field(default_factory=Counter)
    _ended: threading.Event = field(default_factory=threading.Event)
    _running: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Load:
        for number in range(CLIENTS):
            thread = threading.Thread(target=self._append, args=[number])
            self._running.append(thread)
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        for thread in self._running:
            thread.join()

    def await_after(self, moment: float) -> float:
        """Wait for an append acknowledged after the moment; return when that was."""
        while time.monotonic() < moment + 2 * GAP_SECONDS:
            if later := [at for at, _ in [*self.acknowledged.values()] if at > moment]:
                return min(later)
            time.sleep(0.05)
        raise AssertionError(f"no write was acknowledged; answers: {self.wrong}")

    def _append(self, number: int) -> None:
        name, count = THREADS[number % len(THREADS)], 0
        with Client(self.port, self.key) as client:
            while not self._ended.is_set():
                said = f"client {number}, message {count}"
                if self._is_acknowledged(client, name, said):
                    count += 1
                else:
                    time.sleep(0.2)

    def _is_acknowledged(self, client: Client, name: str, said: str) -> bool:
        try:
            answer = client.append(name, said, Idempotency_Key=said.replace(" ", "-"))
        except (OSError, HTTPException):
            client.line.close()
            return False
        if answer.status == 201:
            self.acknowledged[name, said] = time.monotonic(), answer.body["seq"]
        elif answer.status != 503:
            self.wrong[answer.status] += 1
        return answer.status == 201


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        with failover.run_cluster() as made:
            yield made
    except MissingPartError as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=["direct", "PgBouncer"])
def hub(
    cluster: Cluster,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Instance]:
    url = cluster.build_url(pooled=request.param == "PgBouncer")
    monkeypatch.setenv("DATABASE_URL", url)
    with instance(tmp_path / "hub", **UNLIMITED) as made:
        made.call("tests.harness.instances:make_tables")
        made.managed("create_project", "acme")
        yield made


def check(port: int, load: Load) -> None:
    """Assert that each acknowledged append is stored once, and none twice."""
    assert load.wrong == {}
    for name in THREADS:
        stored = list_stored_slots(port, load.key, name)
        assert [each["index"] for each in stored] == list(range(len(stored)))
        times = Counter(each["content"] for each in stored)
        ours = [said for thread, said in load.acknowledged if thread == name]
        assert [said for said in ours if said not in times] == [], "lost"
        assert [said for said, count in times.items() if count > 1] == [], "twice"
        # Each client has one append under way at most.
        assert len(stored) - len(ours) <= CLIENTS


def await_shown(server: Server, session: str, thread: str, seq: int, page: Page) -> bool:
    """Wait for the page to show an event; return whether it had to dial again."""
    deadline, again = time.monotonic() + SHOWN_SECONDS, False
    with ExitStack() as stack:
        while time.monotonic() < deadline:
            try:
                page.await_seq(seq)
                return again
            except ConnectionClosed:
                again = True
                with suppress(ConnectionClosed):
                    line = stack.enter_context(dial(server, session))
                    page = Page(line, thread)
    raise AssertionError(f"the page did not show event {seq}")


def fail_over(cluster: Cluster, made: Instance, rounds: int) -> None:
    key = made.managed("create_key", "acme").strip()
    told: list[dict[str, Any]] = []
    with made.serve() as server:
        with Client(server.port, key) as client:
            assert client.append("t-live", "first").status == 201
        session = session_of(made)
        thread = made.call("tests.cast.sockets:print_thread", "t-live").strip()
        load = Load(port=server.port, key=key)
        for _ in range(rounds):
            primary = cluster.await_ready()
            with dial(server, session) as line:
                page = Page(line, thread)
                with load.__class__(port=server.port, key=key) as load:
                    time.sleep(LOAD_SECONDS)
                    killed = time.monotonic()
                    primary.kill()
                    gap = load.await_after(killed + 0.5) - killed
                    with Client(server.port, key) as client:
                        shown = client.append("t-live", "after")
                    began = time.monotonic()
                    again = await_shown(
                        server, session, thread, shown.body["seq"], page
                    )
                    took = time.monotonic() - began
                    time.sleep(LOAD_SECONDS)
            told.append({"gap": gap, "acknowledged": len(load.acknowledged)})
            told[-1] |= {"shown": took, "dialled again": again, "wrong": load.wrong}
            print(json.dumps(told[-1]))
            primary.start()
            cluster.await_ready()
            check(server.port, load)
        assert server.stop() in (0, -15)
    made.managed("verify", "--all")
    assert max(each["gap"] for each in told) < GAP_SECONDS


@pytest.mark.promise("P1", load="6 writers, primary killed")
@pytest.mark.grown
@pytest.mark.timeout(400)
def test_acknowledged_write_survives_a_failover(
    cluster: Cluster, hub: Instance
) -> None:
    fail_over(cluster, hub, ROUNDS)
