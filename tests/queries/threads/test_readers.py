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


async def test_without_threads_a_query_runs_where_it_is_asked() -> None:
    assert await read(threading.current_thread) is threading.current_thread()


async def test_a_query_runs_on_one_of_the_readers(started: None) -> None:
    names = await asyncio.gather(*(read(_name) for _ in range(40)))
    assert set(names) <= {f"reader-{n}" for n in range(settings.READERS)}


async def test_what_a_query_raises_is_raised_to_who_asked(started: None) -> None:
    def refuse() -> None:
        raise NotFoundError

    with pytest.raises(NotFoundError):
        await read(refuse)
    assert await read(_name)


async def test_a_stopped_pool_has_served_what_waited() -> None:
    pool = Readers()
    pool.start()
    futures = [pool.put(_name) for _ in range(20)]
    pool.stop()
    assert all(future.done() for future in futures)
    assert not pool.running


@pytest.mark.django_db(transaction=True)
async def test_a_reader_keeps_its_connection(
    transactional_db: None, started: None
) -> None:
    seen = {await read(_connection) for _ in range(settings.READERS * 4)}
    assert len(seen) <= settings.READERS


@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
async def test_a_connection_that_the_server_closed_is_made_anew(
    transactional_db: None, started: None
) -> None:
    await asyncio.to_thread(_made)
    for _ in range(settings.READERS * 2):
        await read(_break)
        assert await read(Project.objects.count) == 1


@pytest.mark.django_db(transaction=True)
async def test_a_query_that_fails_by_itself_is_not_asked_twice(
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


def _made() -> None:
    factories.make_project()
    connections.close_all()


def _connection() -> int:
    connection.ensure_connection()
    return id(connection.connection)


def _break() -> None:
    """As if the server had closed it behind our back."""
    connection.ensure_connection()
    raw: Any = connection.connection
    raw.close()
