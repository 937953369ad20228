"""Concurrent appends to blocks, over two processes: every line stands there once."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.harness.instances import UNLIMITED, Instance
from tests.promises.journal.clients import Client, at_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PERSONA = "/threads/t-1/blocks/persona"
CLIENTS, APPENDS = 8, 200
FROM = "2026-01-01T00:00:00Z"


@pytest.mark.promise(
    "P2", load=f"2 processes, {CLIENTS} × {APPENDS} appends to a block"
)
def test_concurrent_block_appends_are_all_kept(instance: Instance, key: str) -> None:
    """Lines of one client stay in their order; nothing is refused."""

    def write(client: Client, who: int) -> set[int]:
        lines = ({"text": f"{who}:{n}\n"} for n in range(APPENDS))
        return {client.post(f"{PERSONA}/append", each).status for each in lines}

    with ExitStack() as stack:
        # The two hear of each other by the database alone.
        env = {**UNLIMITED, "REDIS_URL": ""}
        servers = [stack.enter_context(instance.serve(**env)) for _ in range(2)]
        ports = [servers[n % 2].port for n in range(CLIENTS)]
        api = stack.enter_context(Client(ports[0], key))
        api.put("/threads/t-1", {"user_id": "ann"})
        api.put(PERSONA, {"text": ""})
        told = at_once(write, clients=CLIENTS, key=key, ports=ports)
        assert told == [{200}] * CLIENTS
        blocks = [
            stack.enter_context(Client(server.port, key)).get(PERSONA).body
            for server in servers
        ]
        assert blocks[0] == blocks[1]
        for server in servers:
            server.stop()
    found = blocks[0]["text"].splitlines()
    for who in range(CLIENTS):
        own = [line for line in found if line.startswith(f"{who}:")]
        assert own == [f"{who}:{n}" for n in range(APPENDS)]
    assert len(found) == CLIENTS * APPENDS
    assert blocks[0]["version"] == CLIENTS * APPENDS + 1
    instance.managed("verify", "--all")


def test_retracted_fact_stays_gone_beside_its_end(instance: Instance, key: str) -> None:
    """The end of a fact asserts its value again: none follows a retraction."""
    acts: list[tuple[str, dict[str, str]]] = [
        ("retract", {"reason": "wrong"}),
        ("end", {"at": "2026-02-01T00:00:00Z"}),
    ]
    with ExitStack() as stack:
        server = stack.enter_context(instance.serve(**UNLIMITED))
        api = stack.enter_context(Client(server.port, key))
        api.put("/threads/t-1", {"user_id": "ann"})
        ann = api.post("/subjects:resolve", {"user_id": "ann"}).body["id"]
        path = f"/subjects/{ann}/facts"
        fact = {"predicate": "job", "value": "cook", "valid_from": FROM}
        made = [
            api.post(path, {**fact, "entity": f"user {n}"}).body["ids"][0]
            for n in range(20)
        ]

        def act(client: Client, who: int) -> set[int]:
            verb, body = acts[who]
            return {client.post(f"{path}/{n}:{verb}", body).status for n in made}

        told = at_once(act, clients=2, key=key, ports=[server.port] * 2)
        assert told[0] == {200}
        assert told[1] <= {200, 404}
        assert api.get(f"{path}?ended=true").body["items"] == []
