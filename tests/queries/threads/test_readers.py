from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection, connections

from memoryhub.errors import NotFoundError
from memoryhub.models import Project
from memoryhub.queries.threads.readers import Readers, read, readers
from tests.cast import factories


@pytest.fixture
def started() -> Iterator[None]:
    readers.start()
    yield
    readers.stop()


async def test_query_runs_in_the_callers_thread_when_no_pool_runs() -> None:
    assert await read(threading.current_thread) is threading.current_thread()


async def test_query_runs_on_one_of_the_readers(started: None) -> None:
    names = await asyncio.gather(*(read(_name) for _ in range(40)))
    assert set(names) <= {f"reader-{n}" for n in range(settings.READERS)}


async def test_reader_pool_raises_the_querys_error_to_its_caller(started: None) -> None:
    def refuse() -> None:
        raise NotFoundError

    with pytest.raises(NotFoundError):
        await read(refuse)
    assert await read(_name)


async def test_stopped_pool_has_served_all_waiting_queries() -> None:
    pool = Readers()
    pool.start()
    futures = [pool.put(_name) for _ in range(20)]
    pool.stop()
    assert all(future.done() for future in futures)
    assert not pool.is_running


@pytest.mark.django_db(transaction=True)
async def test_reader_keeps_its_connection(
    transactional_db: None, started: None
) -> None:
    seen = {await read(_connection) for _ in range(settings.READERS * 4)}
    assert len(seen) <= settings.READERS


@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
async def test_connection_that_the_server_closed_is_made_anew(
    transactional_db: None, started: None
) -> None:
    await asyncio.to_thread(_make_project)
    for _ in range(settings.READERS * 2):
        await read(_close_connection)
        assert await read(Project.objects.count) == 1


@pytest.mark.django_db(transaction=True)
async def test_query_that_fails_by_itself_is_not_asked_twice(
    transactional_db: None, started: None
) -> None:
    calls = []

    def fail() -> None:
        connection.ensure_connection()
        calls.append(1)
        raise OperationalError

    with pytest.raises(OperationalError):
        await read(fail)
    assert calls == [1]


def _name() -> str:
    return threading.current_thread().name


def _make_project() -> None:
    factories.make_project()
    connections.close_all()


def _connection() -> int:
    connection.ensure_connection()
    return id(connection.connection)


def _close_connection() -> None:
    """Close the connection, as a server would behind the client's back."""
    connection.ensure_connection()
    raw: Any = connection.connection
    raw.close()
