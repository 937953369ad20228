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
    """Nobody's key is known and nobody has used up anything."""
    auth.forget()
    limits.account = limits.Limits()
    yield
    auth.forget()


@pytest.fixture
def api(acme: Project) -> Client:
    """An agent of acme that reads and writes."""
    return Client(key=factories.make_key(acme)[1])


@pytest.fixture
def reader(acme: Project) -> Client:
    return Client(key=factories.make_key(acme, scopes=["memory:read"])[1])


@pytest.fixture
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


@pytest.fixture
def bound(acme: Project, ann: Subject) -> Client:
    """An agent that knows nobody but ann."""
    return Client(key=factories.make_key(acme, subject=ann)[1])


@pytest.fixture
def foreign(zeta: Project) -> Client:
    """An agent of another project, with every memory scope."""
    return Client(key=factories.make_key(zeta)[1])


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that was right stays so, however slow the machine: it is not looked up."""
    monkeypatch.setattr(auth, "BELIEVED_SECONDS", 60.0)


@pytest.fixture
def nobody() -> Client:
    return Client(key=None)


@pytest.fixture
def served(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Client, str]]:
    """An agent of a process with its own writer and readers, and its key's prefix."""
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
    """An agent of acme, and its key. There are threads: its own, ann's, a stranger's.

    Made before the writer's thread runs.
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
    """A process with sockets, which afterwards are all gone."""
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(streams, "lookout", streams.Lookout())
    async with serving():
        yield
    assert limits.account.streams == limits.account.waiting == {}
    assert sockets._ends == set()
    assert streams.lookout._followers == set()
