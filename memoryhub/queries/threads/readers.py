"""Readers: a few threads with own connections, so that a coroutine can await a query.

Until the readers are started, queries run on the caller's own thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, slots=True)
class _ReadJob:
    work: Callable[[], Any]
    future: Future[Any]


@dataclass(slots=True)
class Readers:
    """A fixed pool of reader threads."""

    _jobs: SimpleQueue[_ReadJob | None] = field(default_factory=SimpleQueue)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        return bool(self._threads)

    def start(self) -> None:
        assert not self._threads
        self._threads = [
            threading.Thread(target=self._run_jobs, name=f"reader-{n}", daemon=True)
            for n in range(settings.READERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish the waiting jobs, close the connections, end the threads."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join()

    def put(self, work: Callable[[], Result]) -> Future[Result]:
        future: Future[Result] = Future()
        job = _ReadJob(work, future)
        if self._threads:
            self._jobs.put(job)
        else:
            _run_job(job)
        return future

    def _run_jobs(self) -> None:
        try:
            while job := self._jobs.get():
                # A caller that cancelled needs no result.
                if job.future.set_running_or_notify_cancel():
                    _run_job(job)
                # Without this, the result would stay in memory until the next job.
                del job
        finally:
            connections.close_all()


def _run_job(job: _ReadJob) -> None:
    try:
        job.future.set_result(_run_with_retry(job.work))
    except Exception as failure:  # noqa: BLE001 # raised again by who waits
        job.future.set_exception(failure)


def _run_with_retry(work: Callable[[], Result]) -> Result:
    """Run the query, once more if the server closed the connection meanwhile."""
    try:
        return work()
    except (InterfaceError, OperationalError):
        if not _close_broken():
            raise
        return work()


def _close_broken() -> bool:
    """Close broken connections; return whether there was one."""
    broken = [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.connection is not None
        and not connection.in_atomic_block
        and not connection.is_usable()
    ]
    for connection in broken:
        connection.close()
    return bool(broken)


#: The process's pool of readers.
readers = Readers()


async def read(
    query: Callable[Arguments, Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Run a query in a reader thread and return its result.

    Raises what the query raises.
    """
    if not readers.is_running:
        return query(*args, **kwargs)
    return await asyncio.wrap_future(readers.put(lambda: query(*args, **kwargs)))
