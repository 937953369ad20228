"""Keys of instances: of a test's own, and of the one that its module shares."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import pytest

from tests.harness.instances import Instance, Server
from tests.promises.journal.clients import Client

MAKE_KEY = "tests.promises.journal.appender:make_key"


@pytest.fixture
def key(instance: Instance) -> str:
    """Return an API key that reads and writes in the instance's project acme."""
    return instance.call(MAKE_KEY).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Project and key of one test, in an instance and server of many tests."""

    instance: Instance
    server: Server
    project: str
    key: str

    def client(self) -> Client:
        return Client(self.server.port, self.key)


@pytest.fixture
def own(shared: Instance, served: Server) -> Own:
    slug = f"acme-{secrets.token_hex(4)}"
    made = shared.call(MAKE_KEY, slug).strip()
    return Own(instance=shared, server=served, project=slug, key=made)
