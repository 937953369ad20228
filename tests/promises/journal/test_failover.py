"""P1: an acknowledged write survives a failover, after which writes go on."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from itertools import pairwise
from pathlib import Path
from typing import Self

import pytest
from websockets.exceptions import ConnectionClosed

from tests.harness import failover
from tests.harness.failover import Cluster, Node
from tests.harness.instances import UNLIMITED, Instance, Server, instance
from tests.harness.parts import MissingPartError
from tests.promises.journal.clients import Client
from tests.promises.journal.writers import list_stored_slots
from tests.promises.live.test_live import Page, dial, session_of

#: Seconds without an acknowledged write.
GAP_SECONDS = 30.0
#: Seconds for an open page to show what is acknowledged after the failover.
SHOWN_SECONDS = 15.0
LOAD_SECONDS = 3.0
#: Seconds after which an answer is no longer from before the end of the primary.
SETTLED_SECONDS = 0.5
THREADS = ("t-1", "t-2", "t-3")
CLIENTS = 6


@dataclass(slots=True, kw_only=True)
class Load:
    """Clients that append, and repeat each append until it is acknowledged."""

    port: int
    key: str
    #: Time of each acknowledged append, by thread and content.
    acknowledged: dict[tuple[str, str], float] = field(default_factory=dict)
    #: Statuses of other answers.
    refused: Counter[int] = field(default_factory=Counter)
    _ended: threading.Event = field(default_factory=threading.Event)
    _running: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for number in range(CLIENTS):
            thread = threading.Thread(target=self._append, args=[number])
            self._running.append(thread)
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        for thread in self._running:
            thread.join()

    def await_after(self, moment: float) -> None:
        """Wait for an append acknowledged after the moment."""
        while max(self._list_times()) < moment:
            assert time.monotonic() < moment + 2 * GAP_SECONDS, self.refused
            time.sleep(0.05)

    def measure_gap(self) -> float:
        """Return the longest time without an acknowledged append."""
        return max(later - one for one, later in pairwise(sorted(self._list_times())))

    def _list_times(self) -> list[float]:
        return [*self.acknowledged.values()]

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
            self.acknowledged[name, said] = time.monotonic()
        else:
            self.refused[answer.status] += 1
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
    """Yield an instance on the cluster, with the project acme."""
    pooled = request.param == "PgBouncer"
    monkeypatch.setenv("DATABASE_URL", cluster.url)
    with instance(tmp_path / "hub", **UNLIMITED) as plain:
        urls = {
            name: cluster.build_hub_url(plain.env[name], pooled=pooled)
            for name in ("DATABASE_URL", "KEYS_DATABASE_URL")
        }
        made = replace(plain, env={**plain.env, **urls})
        made.call("tests.harness.instances:make_tables")
        made.managed("create_project", "acme")
        yield made


def check(port: int, load: Load) -> None:
    """Assert that each acknowledged append is stored once, and none twice."""
    assert load.refused.keys() <= {503}
    for name in THREADS:
        stored = list_stored_slots(port, load.key, name)
        assert [each["index"] for each in stored] == list(range(len(stored)))
        times = Counter(each["content"] for each in stored)
        ours = [said for thread, said in load.acknowledged if thread == name]
        assert [said for said in ours if said not in times] == [], "lost"
        assert [said for said, count in times.items() if count > 1] == [], "twice"
        # Each client has one append under way at most.
        assert len(stored) - len(ours) <= CLIENTS


def await_shown(
    server: Server, session: str, thread: str, seq: int, page: Page
) -> None:
    """Wait for a page to show an event; it dials again, as pages do, if it must."""
    deadline = time.monotonic() + SHOWN_SECONDS
    with ExitStack() as stack:
        while time.monotonic() < deadline:
            try:
                page.await_seq(seq)
            except ConnectionClosed:
                with suppress(ConnectionClosed):
                    line = stack.enter_context(dial(server, session))
                    page = Page(line, thread)
            else:
                return
    raise AssertionError(f"the page did not show event {seq}")


def measure(cluster: Cluster, made: Instance, end: Callable[[Node], None]) -> float:
    """End the primary's reign under load; return seconds without a write."""
    key = made.managed("create_key", "acme").strip()
    with ExitStack() as stack:
        server = stack.enter_context(made.serve())
        client = stack.enter_context(Client(server.port, key))
        assert client.append("t-live", "first").status == 201
        session = session_of(made)
        thread = made.call("tests.cast.sockets:print_thread", "t-live").strip()
        page = Page(stack.enter_context(dial(server, session)), thread)
        primary = cluster.await_ready()
        with Load(port=server.port, key=key) as load:
            time.sleep(LOAD_SECONDS)
            end(primary)
            load.await_after(time.monotonic() + SETTLED_SECONDS)
            shown = client.append("t-live", "after").body["seq"]
            await_shown(server, session, thread, shown, page)
            time.sleep(LOAD_SECONDS)
        gap = load.measure_gap()
        primary.start()
        check(server.port, load)
        sys.stdout.write(f"{gap:.1f} s, {len(load.acknowledged)} acknowledged\n")
        assert server.stop() in (0, -15)
    made.managed("verify", "--all")
    cluster.await_ready()
    return gap


@pytest.mark.promise("P1", load="6 writers, the primary killed or handed over")
@pytest.mark.grown
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("end", [Node.kill, Node.hand_over])
def test_acknowledged_write_survives_a_failover(
    cluster: Cluster, hub: Instance, end: Callable[[Node], None]
) -> None:
    """Writes go on, and an open page, without anybody's help."""
    assert measure(cluster, hub, end) < GAP_SECONDS
