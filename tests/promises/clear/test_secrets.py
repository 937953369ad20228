"""P26: a key is shown once, stored as a digest, and dead soon after it is revoked."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.harness.forks import COLD
from tests.harness.instances import UNLIMITED, Instance
from tests.promises.clear.scanner import Scanner
from tests.promises.clear.test_nothing_in_the_clear import stores, wal_file
from tests.promises.journal.clients import Client

#: Within which every process has noticed; the rest is a busy machine's.
NOTICED_SECONDS, SLACK_SECONDS = 1.0, 1.0
#: The address of one that keeps asking with a dead key is soon heard again.
PATIENCE_SECONDS = 20.0
#: Who keeps asking with a dead key is also slowed down.
DEAD = {401, 429}


def process_arguments() -> bytes:
    """Return command lines, which all users of the machine may see."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found.append(path.read_bytes())
    return b"\n".join(found)


def parts_of(key: str) -> set[str]:
    """Return the texts of a key that must be nowhere: the whole and its secret."""
    return {key, key.rsplit("_", maxsplit=1)[-1]}


@pytest.mark.promise("P26", load="every file, log and command line")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_api_key_is_stored_nowhere(instance: Instance, tmp_path: Path) -> None:
    began = wal_file(instance)
    instance.managed("create_project", "acme")
    made = instance.manage("create_key", "acme")
    key = made.stdout.strip()
    # For a person on the terminal; a program reads it from standard output alone.
    assert made.stdout == f"{key}\n"
    # Started anew, since a fork shows the command line of what it was forked from.
    with instance.serve(**UNLIMITED, **{COLD: "1"}) as server:
        with Client(server.port, key) as client:
            client.append("t-1", "x")
            client.get(f"/threads?after={key}")
            client.get(f"/threads/{key}")
            assert client.post("/threads/t-1/slots", {"content": key}).status == 422
        arguments = process_arguments()
    assert b"manage.py\x00serve" in arguments
    scanner = Scanner(parts_of(key))
    assert set(scanner.iter_hits(arguments, place="process list")) == set()
    folders = stores(instance, tmp_path, since=began)
    assert set(scanner.files(*folders)) == set()
    # Its prefix, which is no secret, is there.
    prefix = Scanner({key.split("_")[2]})
    assert set(prefix.files(*folders)) != set()


def statuses(clients: Iterable[Client]) -> set[int]:
    return {client.get("/threads").status for client in clients}


@pytest.mark.promise("P26", load="2 processes under use")
def test_revoked_key_is_refused_within_a_second(instance: Instance, key: str) -> None:
    """A server under use must not be kept from asking by its cache."""
    other = instance.managed("create_key", "acme").strip()
    with ExitStack() as stack:
        servers = [stack.enter_context(instance.serve(**UNLIMITED)) for _ in range(2)]
        clients = [stack.enter_context(Client(each.port, key)) for each in servers]
        for client in clients:
            assert client.append("t-1", "x").status == 201
        revoking = stack.enter_context(instance.begin("revoke_key", key.split("_")[2]))
        while revoking.poll() is None:
            assert statuses(clients) <= {200, *DEAD}
        assert revoking.returncode == 0
        done = time.monotonic()
        while not statuses(clients) <= DEAD:
            assert time.monotonic() - done < NOTICED_SECONDS + SLACK_SECONDS
        assert {client.append("t-1", "late").status for client in clients} <= DEAD
        others = [stack.enter_context(Client(each.port, other)) for each in servers]
        # A key that is new to a server waits with those that are wrong.
        while (told := statuses(others)) != {200}:
            assert told <= {200, 429}
            assert time.monotonic() - done < PATIENCE_SECONDS
