"""The writer: one thread and one connection that commit for the whole process.

It drains its queue and commits many commands in one transaction, so that one disk flush
serves all waiting callers. Nothing is acknowledged before the commit. See decision 1.
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
from memoryhub.journal.log.orders import Order, OrderReceipt
from memoryhub.journal.writing.activity import activity
from memoryhub.journal.writing.batch import Outcome, WriteBatch
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


class BatchCommitter:
    """Commits batches on the calling thread's connection. Not thread-safe."""

    def __init__(self, clock: Callable[[], datetime] = clock.now) -> None:
        self.clock = clock
        self.heads = Heads()

    def commit(self, orders: Sequence[Order]) -> list[Outcome]:
        """Commit the orders in one transaction; return a receipt or a refusal for each.

        Orders that fail as a whole are tried again one by one, so that one bad command
        can't fail others. Announces the threads that moved. While the clock is off,
        each order is refused: a wrong timestamp could never be told from a right one.
        """
        if clock.is_skewed:
            return [ClockSkewError() for _ in orders]
        try:
            outcomes = self._run_attempts(orders)
        except (OperationalError, InterfaceError) as failure:
            # The database is away or locked, so each order alone would fail as well.
            # Log the driver's name for the failure: a statement timeout, a full disk.
            log.error("writer.failed", code=_name_cause(failure))
            outcomes = [UnavailableError() for _ in orders]
        except Exception as failure:  # noqa: BLE001 # a batch must end with an answer
            if len(orders) > 1:
                return [self.commit([order])[0] for order in orders]
            outcomes = [_build_refusal(failure)]
        uses.count_writes(orders, outcomes)
        announce.notify(
            (order.address.project, each.thread, each.seq)
            for order, each in zip(orders, outcomes, strict=True)
            if isinstance(each, OrderReceipt) and each.events and not each.replayed
        )
        return outcomes

    def _run_attempts(self, orders: Sequence[Order]) -> list[Outcome]:
        for attempt in range(ATTEMPTS):
            batch = WriteBatch(heads=self.heads, clock=self.clock)
            try:
                return batch.run(orders, locked=attempt >= RACES)
            except (MovedError, IntegrityError):
                # Another process was faster to a head, a name or an Idempotency-Key.
                continue
            except (OperationalError, InterfaceError) as failure:
                _drop_broken_connections()
                if (outcomes := batch.recover_outcomes()) is not None:
                    return outcomes
                if not _is_deadlock(failure):
                    raise
        raise DatabaseError("no attempt was left")


def _name_cause(failure: Exception) -> str:
    """Return the driver's name of a failure, such as SQLITE_FULL; else its class."""
    cause = failure.__cause__ or failure
    names = (getattr(cause, name, None) for name in ("sqlite_errorname", "sqlstate"))
    return next(filter(None, names), type(cause).__name__)


def _build_refusal(failure: Exception) -> Refusal:
    """Return the refusal for a single order whose batch failed as a whole."""
    if isinstance(failure, Refusal):
        # The refusal came before any order was looked at: a project's key is gone.
        return failure
    log.error("writer.failed", code=type(failure).__name__)
    return UnavailableError()


def _is_deadlock(failure: BaseException) -> bool:
    """Return whether PostgreSQL aborted our transaction to end a deadlock (40P01)."""
    return getattr(failure.__cause__, "sqlstate", None) == "40P01"


@dataclass(slots=True)
class _WriterJob:
    """An order, or other work, and the future of the waiting caller."""

    order: Order | None
    work: Callable[[], Any] | None
    #: A coroutine's future belongs to its own event loop, and is settled there.
    future: Future[Any] | asyncio.Future[Any]
    size: int
    actor: str
    outcome: Any = None
    #: Time of arrival, by the monotonic clock.
    came_at: float = field(default_factory=time.perf_counter)

    def begin(self) -> bool:
        """Begin the job unless the caller cancelled it; return whether it began."""
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

    journal: BatchCommitter = field(default_factory=BatchCommitter)
    _jobs: deque[_WriterJob] = field(default_factory=deque)
    _bytes: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _stopping: bool = False
    _direct: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Number of jobs in the queue."""
        return len(self._jobs)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the jobs in the queue."""
        return self._bytes

    def start(self) -> None:
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse new work, finish the queue, close the connections."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._stopping = False

    def put(self, order: Order) -> Future[OrderReceipt]:
        """Queue an order. Raises QueueFullError at once when it can't be served."""
        future: Future[OrderReceipt] = Future()
        self._put(_WriterJob(order, None, future, order.size, order.actor))
        return future

    def put_work(self, work: Callable[[], Any]) -> Future[Any]:
        """Queue a write that is not a command; it runs between two batches."""
        future: Future[Any] = Future()
        self._put(_WriterJob(None, work, future, 0, ""))
        return future

    async def await_outcome(
        self, order: Order | None, work: Callable[[], Any] | None = None
    ) -> Any:
        """Wait for an order or other work; return its result or raise its exception."""
        size, actor = (order.size, order.actor) if order else (0, "")
        job = _WriterJob(order, work, Future(), size, actor)
        if self.is_running or self._stopping:
            job.future = asyncio.get_running_loop().create_future()
        self._put(job)
        # The job ran directly: there was nothing to wait for, and no loop is needed.
        if isinstance(job.future, Future):
            return job.future.result()
        return await job.future

    def _put(self, job: _WriterJob) -> None:
        if not self.is_running and not self._stopping:
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

    def _run_directly(self, job: _WriterJob) -> None:
        job.begin()
        with self._direct:
            self._serve([job])
        job.settle()

    def _loop(self) -> None:
        try:
            while taken := self._take():
                # From here on no remaining job can be cancelled.
                jobs = [job for job in taken if job.begin()]
                try:
                    self._serve(jobs)
                except Exception as failure:  # noqa: BLE001 # outermost loop
                    log.error("writer.failed", code=type(failure).__name__)
                    for job in jobs:
                        job.outcome = UnavailableError()
                _settle_jobs(jobs)
        finally:
            connections.close_all()

    def _take(self) -> list[_WriterJob]:
        """Return the next batch, or an empty list once stopped and drained."""
        with self._changed:
            while not self._jobs and not self._stopping:
                self._changed.wait()
            taken, left = _split_fairly(self._jobs)
            self._jobs = left
            self._bytes -= sum(job.size for job in taken)
            return taken

    def _serve(self, jobs: Sequence[_WriterJob]) -> None:
        if not jobs:
            return
        if jobs[0].work is not None:
            _run_work(jobs[0])
            return
        orders = [job.order for job in jobs if job.order is not None]
        for job, outcome in zip(jobs, self.journal.commit(orders), strict=True):
            job.outcome = outcome
        _count_commits(jobs)


def _count_commits(jobs: Sequence[_WriterJob]) -> None:
    """Count how long each command of an agent took until it was on disk."""
    now = time.perf_counter()
    activity.count_commits(
        (job.order.address.project, now - job.came_at)
        for job in jobs
        if job.order is not None and job.actor.startswith(_AGENT)
        if isinstance(job.outcome, OrderReceipt) and job.outcome.events
    )


def _settle_jobs(jobs: Sequence[_WriterJob]) -> None:
    """Settle all futures; wake each event loop once, for all who wait there."""
    waiting: dict[asyncio.AbstractEventLoop, list[_WriterJob]] = {}
    for job in jobs:
        if isinstance(job.future, Future):
            job.settle()
        else:
            waiting.setdefault(job.future.get_loop(), []).append(job)
    for loop, theirs in waiting.items():
        with suppress(RuntimeError):  # the loop closed meanwhile
            loop.call_soon_threadsafe(_settle_in_loop, theirs)


def _settle_in_loop(jobs: Sequence[_WriterJob]) -> None:
    for job in jobs:
        job.settle()


def _split_fairly(
    jobs: deque[_WriterJob],
) -> tuple[list[_WriterJob], deque[_WriterJob]]:
    """Return the oldest jobs up to the bounds of a batch, and the rest, in order.

    Work that is not a command is a batch of its own.
    """
    if jobs and jobs[0].work is not None:
        first = jobs.popleft()
        return [first], jobs
    taken: list[_WriterJob] = []
    left: deque[_WriterJob] = deque()
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
    """Close broken connections, so that a returning database needs no restart."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def name_defect(failure: BaseException) -> str:
    """Return the class name of an error that no outage explains; "" for an outage.

    Outages are a database that is away, full or locked, and a file that can't be read.
    """
    outage = (OperationalError, InterfaceError, OSError, Refusal)
    if isinstance(failure, outage):
        return getattr(failure, "defect", "")
    return type(failure).__name__


def _run_work(job: _WriterJob) -> None:
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


async def submit(order: Order) -> OrderReceipt:
    """Commit the order; return its receipt once it is on disk.

    Raises its Refusal.
    """
    receipt: OrderReceipt = await writer.await_outcome(order)
    return receipt


def perform(order: Order) -> OrderReceipt:
    """Commit as `submit` does, for callers that are not coroutines; blocks."""
    return writer.put(order).result()


def run(work: Callable[[], Any]) -> Any:
    """Run a write that is not a command in the writer; blocks.

    One connection writes in a process, so that SQLite's writers never queue for locks.
    """
    return writer.put_work(work).result()


async def run_async(work: Callable[[], Any]) -> Any:
    """Run as `run` does, for coroutines."""
    return await writer.await_outcome(None, work)
