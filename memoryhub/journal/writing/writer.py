"""The writer: one thread and one connection that commit for the whole process.

It drains its queue and commits many commands in one transaction, so that one disk
flush serves all who wait. Nothing is acknowledged before the commit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connections,
)

from memoryhub.errors import (
    ClockSkewError,
    QueueFullError,
    Refusal,
    UnavailableError,
)
from memoryhub.journal.log import announce
from memoryhub.journal.log.heads import Heads, MovedError
from memoryhub.journal.log.orders import Order, Receipt
from memoryhub.journal.writing.activity import activity
from memoryhub.journal.writing.batch import Batch, Outcome
from memoryhub.journal.writing.uses import uses
from memoryhub.models.server.clock import clock

log = structlog.get_logger()

#: Commands in one transaction, and of one sender in it, so that none starves others.
BATCH_COMMANDS = 256
BATCH_PER_ACTOR = 64
#: Void attempts before the threads' rows are locked, which ends the race.
RACES = 1
ATTEMPTS = 12
#: Actors whose commands are timed.
_AGENT = "agent:"


class Journal:
    """Applies batches on the calling thread's connection. Not thread-safe."""

    def __init__(self, clock: Callable[[], datetime] = clock.now) -> None:
        self.clock = clock
        self.heads = Heads()

    def apply(self, orders: Sequence[Order]) -> list[Outcome]:
        """Commit the orders in one transaction; a receipt or a refusal for each.

        What fails as a whole is tried again one by one, so that one bad command can't
        fail others. Announces the threads that moved. While the clock is off, each is
        refused: what is stamped with a wrong time could never be told from the rest.
        """
        if clock.skewed:
            return [ClockSkewError() for _ in orders]
        try:
            outcomes = self._attempts(orders)
        except (OperationalError, InterfaceError) as failure:
            # The database is away or locked: it would be for each of them, one by one.
            # The driver names it: a statement that took too long, a full disk.
            log.error("writer.failed", code=_cause(failure))
            outcomes = [UnavailableError() for _ in orders]
        except Exception as failure:  # noqa: BLE001 # a batch must end with an answer
            if len(orders) > 1:
                return [self.apply([order])[0] for order in orders]
            outcomes = [_refused(failure)]
        uses.wrote(orders, outcomes)
        announce.ring(
            (order.address.project, each.thread, each.seq)
            for order, each in zip(orders, outcomes, strict=True)
            if isinstance(each, Receipt) and each.events and not each.replayed
        )
        return outcomes

    def _attempts(self, orders: Sequence[Order]) -> list[Outcome]:
        for attempt in range(ATTEMPTS):
            batch = Batch(heads=self.heads, clock=self.clock)
            try:
                return batch.run(orders, locked=attempt >= RACES)
            except (MovedError, IntegrityError):
                # Another process was faster to a head, a name or an Idempotency-Key.
                continue
            except (OperationalError, InterfaceError) as failure:
                _drop_broken_connections()
                if (outcomes := batch.committed()) is not None:
                    return outcomes
                if not _deadlock(failure):
                    raise
        raise DatabaseError("no attempt was left")


def _cause(failure: Exception) -> str:
    """The driver's name for what failed, as SQLITE_FULL; else that of its class."""
    cause = failure.__cause__ or failure
    names = (getattr(cause, name, None) for name in ("sqlite_errorname", "sqlstate"))
    return next(filter(None, names), type(cause).__name__)


def _refused(failure: Exception) -> Refusal:
    """What the one order is told that failed as a whole."""
    if isinstance(failure, Refusal):
        # Of what was asked before any order was looked at: a project's key is gone.
        return failure
    log.error("writer.failed", code=type(failure).__name__)
    return UnavailableError()


def _deadlock(failure: BaseException) -> bool:
    """Whether PostgreSQL chose our transaction to end a deadlock (SQLSTATE 40P01)."""
    return getattr(failure.__cause__, "sqlstate", None) == "40P01"


@dataclass(slots=True)
class _Job:
    """An order, or a piece of work of its own, and who waits for it."""

    order: Order | None
    work: Callable[[], Any] | None
    #: A coroutine's is of its own event loop, and settled there.
    future: Future[Any] | asyncio.Future[Any]
    size: int
    actor: str
    outcome: Any = None
    #: When it came, by the clock that never goes back.
    came_at: float = field(default_factory=time.perf_counter)

    def begin(self) -> bool:
        """Return whether somebody still waits; whoever does can't leave any more."""
        if isinstance(self.future, Future):
            return self.future.set_running_or_notify_cancel()
        return not self.future.cancelled()

    def settle(self) -> None:
        if self.future.done():
            return
        if isinstance(self.outcome, BaseException):
            self.future.set_exception(self.outcome)
        else:
            self.future.set_result(self.outcome)


@dataclass(slots=True)
class Writer:
    """The process's writer. Until it is started, callers write on their own thread."""

    journal: Journal = field(default_factory=Journal)
    _jobs: deque[_Job] = field(default_factory=deque)
    _bytes: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _stopping: bool = False
    _direct: threading.RLock = field(default_factory=threading.RLock)

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Commands in the queue."""
        return len(self._jobs)

    def start(self) -> None:
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse new work, finish what waits, close the connections."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._stopping = False

    def put(self, order: Order) -> Future[Receipt]:
        """Queue an order. Raises QueueFullError at once when it can't be served."""
        future: Future[Receipt] = Future()
        self._put(_Job(order, None, future, order.size, order.actor))
        return future

    def put_work(self, work: Callable[[], Any]) -> Future[Any]:
        """Queue a write that is no command; it runs between two batches."""
        future: Future[Any] = Future()
        self._put(_Job(None, work, future, 0, ""))
        return future

    async def settled(
        self, order: Order | None, work: Callable[[], Any] | None = None
    ) -> Any:
        """Wait for an order or work, and return or raise what came of it."""
        size, actor = (order.size, order.actor) if order else (0, "")
        job = _Job(order, work, Future(), size, actor)
        if self.running or self._stopping:
            job.future = asyncio.get_running_loop().create_future()
        self._put(job)
        # Written directly: there was nothing to wait for, nor a loop that is needed.
        if isinstance(job.future, Future):
            return job.future.result()
        return await job.future

    def _put(self, job: _Job) -> None:
        if not self.running and not self._stopping:
            self._run_directly(job)
            return
        with self._changed:
            full = len(self._jobs) >= settings.QUEUE_COMMANDS
            full = full or self._bytes + job.size > settings.QUEUE_BYTES
            if full or self._stopping:
                raise QueueFullError(
                    max_commands=settings.QUEUE_COMMANDS,
                    max_bytes=settings.QUEUE_BYTES,
                )
            self._jobs.append(job)
            self._bytes += job.size
            self._changed.notify()

    def _run_directly(self, job: _Job) -> None:
        job.begin()
        with self._direct:
            self._serve([job])
        job.settle()

    def _loop(self) -> None:
        try:
            while taken := self._take():
                # From here on none that is left can be cancelled.
                jobs = [job for job in taken if job.begin()]
                try:
                    self._serve(jobs)
                except Exception as failure:  # noqa: BLE001 # outermost loop
                    log.error("writer.failed", code=type(failure).__name__)
                    for job in jobs:
                        job.outcome = UnavailableError()
                _settle(jobs)
        finally:
            connections.close_all()

    def _take(self) -> list[_Job]:
        """The next batch, or an empty list once stopped and drained."""
        with self._changed:
            while not self._jobs and not self._stopping:
                self._changed.wait()
            taken, left = _fair(self._jobs)
            self._jobs = left
            self._bytes -= sum(job.size for job in taken)
            return taken

    def _serve(self, jobs: Sequence[_Job]) -> None:
        if not jobs:
            return
        if jobs[0].work is not None:
            _work(jobs[0])
            return
        orders = [job.order for job in jobs if job.order is not None]
        for job, outcome in zip(jobs, self.journal.apply(orders), strict=True):
            job.outcome = outcome
        _count(jobs)


def _count(jobs: Sequence[_Job]) -> None:
    """Count how long each command of an agent took until it was on disk."""
    now = time.perf_counter()
    activity.committed(
        (job.order.address.project, now - job.came_at)
        for job in jobs
        if job.order is not None and job.actor.startswith(_AGENT)
        if isinstance(job.outcome, Receipt) and job.outcome.events
    )


def _settle(jobs: Sequence[_Job]) -> None:
    """Tell all who wait. An event loop is woken once, whoever waits there."""
    waiting: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        if isinstance(job.future, Future):
            job.settle()
        else:
            waiting.setdefault(job.future.get_loop(), []).append(job)
    for loop, theirs in waiting.items():
        with suppress(RuntimeError):  # the loop closed meanwhile
            loop.call_soon_threadsafe(_settle_here, theirs)


def _settle_here(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        job.settle()


def _fair(jobs: deque[_Job]) -> tuple[list[_Job], deque[_Job]]:
    """The oldest jobs up to the bounds of a batch, and what is left, in order.

    Work that is no command is a batch of its own.
    """
    if jobs and jobs[0].work is not None:
        first = jobs.popleft()
        return [first], jobs
    taken: list[_Job] = []
    left: deque[_Job] = deque()
    shares: Counter[str] = Counter()
    while jobs and len(taken) < BATCH_COMMANDS and jobs[0].work is None:
        job = jobs.popleft()
        if shares[job.actor] < BATCH_PER_ACTOR:
            shares[job.actor] += 1
            taken.append(job)
        else:
            left.append(job)
    left.extend(jobs)
    return taken, left


def _drop_broken_connections() -> None:
    """So that a database that comes back is found again without a restart."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def name_defect(failure: BaseException) -> str:
    """Return the class of an error that no outage explains; empty of an outage.

    A database that is away, full or locked and a file that can't be read are outages.
    """
    outage = (OperationalError, InterfaceError, OSError, Refusal)
    if isinstance(failure, outage):
        return getattr(failure, "defect", "")
    return type(failure).__name__


def _work(job: _Job) -> None:
    assert job.work is not None
    try:
        job.outcome = job.work()
    except Refusal as refusal:
        job.outcome = refusal
    except DatabaseError as failure:
        _drop_broken_connections()
        log.error("writer.failed", code=type(failure).__name__)
        job.outcome = UnavailableError()
        job.outcome.defect = name_defect(failure)


#: The process's one writer.
writer = Writer()


async def submit(order: Order) -> Receipt:
    """Commit the order; returns once it is on disk.

    Raises its Refusal.
    """
    receipt: Receipt = await writer.settled(order)
    return receipt


def perform(order: Order) -> Receipt:
    """Commit as `submit` does, for callers that are no coroutines; blocks."""
    return writer.put(order).result()


def run(work: Callable[[], Any]) -> Any:
    """Run a write in the writer that is no command; blocks.

    One connection writes in a process, so that SQLite's writers never queue for locks.
    """
    return writer.put_work(work).result()


async def run_async(work: Callable[[], Any]) -> Any:
    """Run as `run` does, for coroutines."""
    return await writer.settled(None, work)
