"""A server with a name of its own, and keys of a project for each test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from tests.harness.instances import UNLIMITED, Instance, Server
from tests.promises.conftest import MAKE_KEY

#: Name that the server is reached by, as behind a proxy.
HOST = "m.example"

MakeKey = Callable[..., str]


@pytest.fixture(scope="module")
def served(shared: Instance) -> Iterator[Server]:
    with shared.serve(MEMORYHUB_HOSTS=HOST, **UNLIMITED) as server:
        yield server
        server.stop()


@pytest.fixture
def project() -> str:
    return f"acme-{secrets.token_hex(4)}"


@pytest.fixture
def key(shared: Instance, project: str) -> str:
    return shared.call(MAKE_KEY, project).strip()


@pytest.fixture
def make_key(shared: Instance, project: str, key: str) -> MakeKey:
    """Return a function that makes another key of the project of `key`."""

    def make(*words: str, person: str | None = None) -> str:
        bound = () if person is None else ("--user-id",)
        done = shared.manage("create_key", project, *bound, *words, stdin=person)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return make
