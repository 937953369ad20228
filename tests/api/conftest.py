"""The cast of the API's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from django.db import connections

from memoryhub.api.http import auth, limits, streams
from memoryhub.api.threads.socket import sockets
from memoryhub.journal import writer
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.queries.threads.readers import readers
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.api.client import Client
from tests.cast import factories
from tests.cast.sockets import serving


@pytest.fixture(autouse=True)
def fresh_accounts() -> Iterator[None]:
    """Forget all believed keys and all use of limits."""
    auth.forget()
    limits.account = limits.UsageAccount()
    yield
    auth.forget()


@pytest.fixture
def api(acme: Project) -> Client:
    """Return an agent of acme that reads and writes."""
    return Client(key=factories.make_key(acme)[1])


@pytest.fixture
def reader(acme: Project) -> Client:
    return Client(key=factories.make_key(acme, scopes=["memory:read"])[1])


@pytest.fixture
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


@pytest.fixture
def bound(acme: Project, ann: Subject) -> Client:
    """Return an agent that knows nobody but ann."""
    return Client(key=factories.make_key(acme, subject=ann)[1])


@pytest.fixture
def foreign(zeta: Project) -> Client:
    """Return an agent of another project, with every memory scope."""
    return Client(key=factories.make_key(zeta)[1])


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe a key for as long as a slow machine needs: no second look-up."""
    monkeypatch.setattr(auth, "BELIEVED_SECONDS", 60.0)


@pytest.fixture
def nobody() -> Client:
    return Client(key=None)


@pytest.fixture
def served(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Client, str]]:
    """Yield an agent of a process with own writer and readers, and its key prefix."""
    project = factories.make_project("acme")
    agent, key = factories.make_key(project)
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(streams, "lookout", streams.Lookout())
    writer.start()
    readers.start()
    yield Client(key=key), agent.prefix
    readers.stop()
    writer.stop()
    connections.close_all()


@pytest.fixture
def holder(acme: Project, zeta: Project) -> tuple[Agent, str]:
    """Make an agent of acme and its key; threads are its own, ann's and a stranger's.

    The fixture runs before the writer's thread does.
    """
    agent, key = factories.make_key(acme)
    factories.append(agent, "t-1", "one", "two")
    factories.make_thread(agent, "anns", user_id="ann")
    factories.make_thread(factories.make_agent(zeta), "theirs")
    return agent, key


@pytest.fixture
def key(holder: tuple[Agent, str]) -> str:
    return holder[1]


@pytest_asyncio.fixture
async def listening(
    holder: tuple[Agent, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Run a process with sockets, and check that all are closed afterwards."""
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(streams, "lookout", streams.Lookout())
    async with serving():
        yield
    assert limits.account.streams == limits.account.waiting == {}
    assert sockets._ends == set()
    assert streams.lookout._followers == set()
