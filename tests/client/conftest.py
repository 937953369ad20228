"""A hub for the client's tests, and both clients behind one interface."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, closing
from itertools import islice
from typing import Any, Protocol, Unpack

import pytest

from memoryhub_client import AsyncClient, Client, Download, Feed, Listing, Request
from memoryhub_client.requests import Answer
from memoryhub_client.transport import Patience
from tests.harness.instances import Instance, Server
from tests.promises.conftest import MAKE_KEY

Item = dict[str, Any]


class Hub(Protocol):
    """Interface of both clients for tests: each call runs to its end."""

    def send(self, request: Request[Answer]) -> Answer: ...
    def list_items(self, request: Listing) -> list[Item]: ...
    def follow(self, request: Feed, count: int) -> list[Item]: ...
    def download(self, request: Download) -> bytes: ...
    def close(self) -> None: ...


class Waiting:
    def __init__(self, *where: str, **patience: Unpack[Patience]) -> None:
        self.client = Client(*where, **patience)
        self.send, self.close = self.client.send, self.client.close

    def list_items(self, request: Listing) -> list[Item]:
        return [*self.client.each(request)]

    def follow(self, request: Feed, count: int) -> list[Item]:
        with closing(self.client.follow(request)) as events:
            return [*islice(events, count)]

    def download(self, request: Download) -> bytes:
        return b"".join(self.client.download(request))


class Awaited:
    def __init__(self, *where: str, **patience: Unpack[Patience]) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(*where, **patience)

    def send(self, request: Request[Answer]) -> Answer:
        return self.runner.run(self.client.send(request))

    def list_items(self, request: Listing) -> list[Item]:
        return self.runner.run(_collect_items(self.client.each(request)))

    def follow(self, request: Feed, count: int) -> list[Item]:
        return self.runner.run(_collect_items(self.client.follow(request), count))

    def download(self, request: Download) -> bytes:
        return b"".join(self.runner.run(_collect_items(self.client.download(request))))

    def close(self) -> None:
        self.runner.run(self.client.close())
        self.runner.close()


async def _collect_items(
    source: AsyncGenerator[Any, None], count: int | None = None
) -> list[Any]:
    found = []
    async with aclosing(source):
        async for item in source:
            found.append(item)
            if len(found) == count:
                break
    return found


Connect = Callable[..., Hub]


@pytest.fixture(params=[Waiting, Awaited], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return a function that makes a client of this kind; close it with the test."""
    made: list[Hub] = []

    def open_one(*where: str, **patience: Unpack[Patience]) -> Hub:
        made.append(request.param(*where, **patience))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


@pytest.fixture
def project() -> str:
    """Make a project for the test, in an instance of many tests."""
    return f"acme-{secrets.token_hex(4)}"


@pytest.fixture
def key(shared: Instance, project: str) -> str:
    return shared.call(MAKE_KEY, project).strip()


@pytest.fixture
def officer(
    connect: Connect, shared: Instance, served: Server, project: str, key: str
) -> Hub:
    """Return a client whose key manages people and reads no memory."""
    scopes = "--scopes=subject:export,subject:forget,admin"
    return connect(served.url, shared.managed("create_key", project, scopes).strip())


@pytest.fixture
def hub(connect: Connect, served: Server, key: str) -> Hub:
    return connect(served.url, key)
