"""P19: a server that is asked for more than it takes needs no more memory for it."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from tests.harness.instances import UNLIMITED, Instance
from tests.promises.journal.clients import Client, at_once
from tests.promises.live.test_sockets import MIB, memory, needs_proc

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CLIENTS, REQUESTS = 4, 80
LOWERED = {
    "MEMORYHUB_QUEUE_BYTES": "100000",
    "MEMORYHUB_BODY_BYTES": "400000",
    "MEMORYHUB_ANONYMOUS_REQUESTS_PER_SECOND": "1",
}
BEYOND_THE_QUEUE, BEYOND_THE_CAP = "x" * 380_000, "x" * 400_000
#: That a server may need after each round more than after the first, and at any time.
#: It refuses bodies of 29 MiB a round because of the queue alone.
GROWTH_BYTES, PEAK_BYTES = 50 * MIB, 100 * MIB


@needs_proc
@pytest.mark.promise("P19", load=f"{CLIENTS} clients, {{rounds}} × {REQUESTS} requests")
@pytest.mark.parametrize(
    "rounds",
    [3, pytest.param(300, marks=[pytest.mark.nightly, pytest.mark.timeout(7_200)])],
)
def test_memory_is_bounded_under_overload(
    instance: Instance, key: str, rounds: int
) -> None:
    """Three of four requests are refused, each by another limit."""
    fresh = count()

    def overload(client: Client, number: int) -> Counter[int]:
        told = Counter[int]()
        for _ in range(REQUESTS // 4):
            # Names and keys that nobody has seen: nothing may be kept for each.
            n = next(fresh)
            told[client.append(f"t-{n}", "x").status] += 1
            told[client.append(f"t-{n}", BEYOND_THE_QUEUE).status] += 1
            told[client.append(f"t-{n}", BEYOND_THE_CAP).status] += 1
            wrong = {"Authorization": f"Bearer mh_live_{n}"}
            told[client.ask("GET", "/api/v1/threads", None, wrong).status] += 1
        return told

    with instance.serve(**UNLIMITED, **LOWERED) as server:
        at_once(overload, clients=CLIENTS, key=key, port=server.port)
        before = memory(server)
        for _ in range(rounds):
            answered = at_once(overload, clients=CLIENTS, key=key, port=server.port)
            told = sum(answered, Counter[int]())
            assert told.keys() == {201, 401, 413, 429, 503}, told
            assert memory(server) - before < GROWTH_BYTES
        assert memory(server, peak=True) - before < PEAK_BYTES
        with Client(server.port, key) as client:
            assert client.append("t-1", "after all").status == 201
