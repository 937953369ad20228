"""P11: after a write has returned, no process answers from before it.

The two servers have no channel between them, so every notice is lost.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.harness.instances import UNLIMITED, Instance
from tests.promises.journal.clients import Client, at_once

pytestmark = pytest.mark.timeout(600)

#: What a server without Redis is given; this run's own is left out.
ALONE = {**UNLIMITED, "REDIS_URL": ""}


@dataclass(slots=True)
class Acknowledged:
    """Newest seq that a write has returned."""

    seq: int = 0
    done: threading.Event = field(default_factory=threading.Event)


@pytest.mark.promise(
    "P11", load="2 processes, no notice, {readers} readers, {appends} writes"
)
@pytest.mark.parametrize(
    ("appends", "readers"),
    [(150, 3), pytest.param(3_000, 3, marks=pytest.mark.nightly)],
)
def test_no_process_answers_from_before_a_write(
    instance: Instance, key: str, appends: int, readers: int
) -> None:
    told = Acknowledged()

    def read(client: Client) -> tuple[int, list[str]]:
        """Return the number of looks, and values seen that are older than a write."""
        looks, late = 0, []
        while not told.done.is_set():
            before = told.seq
            thread = client.get("/threads/t-1").body["seq"]
            newest = client.get("/threads/t-1/slots?start=-1").body["items"][0]["seq"]
            events = client.get(f"/threads/t-1/events?after={before - 1}&limit=1")
            seen = {"thread": thread, "slots": newest}
            late += [
                f"{what} {seq} < {before}" for what, seq in seen.items() if seq < before
            ]
            late += [] if events.body["items"] else [f"no event {before}"]
            looks += 1
        return looks, late

    def work(client: Client, number: int) -> tuple[int, list[str]]:
        if number < readers:
            return read(client)
        try:
            for n in range(appends):
                told.seq = client.append("t-1", n).body["seq"]
        finally:
            told.done.set()
        return appends, []

    with instance.serve(**ALONE) as one, instance.serve(**ALONE) as other:
        with Client(one.port, key) as client:
            told.seq = client.append("t-1", "first").body["seq"]
        ports = [other.port] * readers + [one.port]
        outcomes = at_once(work, clients=readers + 1, ports=ports, key=key)
    assert [late for _, late in outcomes if late] == []
    assert min(looks for looks, _ in outcomes) > 10


@pytest.mark.promise("P11", load="2 processes by turns, 40 writes")
def test_two_processes_write_to_one_thread_by_turns(
    instance: Instance, key: str
) -> None:
    """Each process goes on from the other's last write, with the returned seq."""
    with ExitStack() as stack:
        servers = [stack.enter_context(instance.serve(**ALONE)) for _ in range(2)]
        clients = [stack.enter_context(Client(each.port, key)) for each in servers]
        seq = clients[0].append("t-1", 0).body["seq"]
        for n in range(1, 41):
            answer = clients[n % 2].append("t-1", n, If_Match=str(seq))
            assert (answer.status, answer.body["index"]) == (201, n)
            seq = answer.body["seq"]
        for client in clients:
            assert client.get("/threads/t-1").body["slots"] == 41
    assert "42 events" in instance.managed("verify", "--all")
