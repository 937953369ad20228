"""The loop of all background work, in the server's process or by `manage.py worker`.

Of several processes one does the work, under a lease; the others look whether it lives.
One whose clock is off does none: what it would sweep or retire can't be brought back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import structlog
from django.conf import settings

from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.services.forget import replays
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.workers import (
    anchors,
    ballast,
    deletions,
    expiry,
    heartbeats,
    leases,
    levels,
    listing,
    retention,
    stats,
    sweeping,
)
from memoryhub.workers.consolidation import Consolidator
from memoryhub.workers.erasures import Eraser
from memoryhub.workers.loops import Loop
from memoryhub.workers.observing import ThreadObserver
from memoryhub.workers.overview import activity, unhealthy
from memoryhub.workers.scans import Scanner
from memoryhub.workers.search import terms

log = structlog.get_logger()

LEASE = "reconcile"
ROUND_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A kind of background work: idempotent, and harmless when done twice."""

    name: str
    every_seconds: float
    #: Takes the time, returns how many rows it put right.
    work: Callable[[datetime], int]
    #: From so many rows on there may be more: it is due again at once.
    full: float = float("inf")


TASKS = (
    Task(name="listing", every_seconds=10, work=listing.bring_up),
    Task(name="levels", every_seconds=10, work=levels.make),
    Task(name="terms", every_seconds=30, work=terms.write_ahead, full=1),
    Task(name="new_terms", every_seconds=2, work=terms.write_busy_threads, full=1),
    Task(name="stats", every_seconds=10, work=stats.take),
    Task(name="unhealthy", every_seconds=10, work=unhealthy.look),
    Task(
        name="expiry",
        every_seconds=settings.EXPIRY_INTERVAL_SECONDS,
        work=expiry.expire,
        full=expiry.AT_ONCE,
    ),
    Task(
        name="values",
        every_seconds=settings.EXPIRY_INTERVAL_SECONDS,
        work=expiry.erase,
        full=expiry.AT_ONCE,
    ),
    Task(name="request_keys", every_seconds=600, work=sweeping.request_keys),
    Task(name="orphan_keys", every_seconds=600, work=sweeping.orphan_keys),
    Task(name="imports", every_seconds=600, work=sweeping.imports),
    Task(name="sign_ins", every_seconds=600, work=sweeping.sign_ins),
    Task(name="activity", every_seconds=600, work=sweeping.activity),
    Task(name="ballast", every_seconds=60, work=ballast.keep),
    Task(name="anchors", every_seconds=3600, work=anchors.anchor),
    Task(name="retention", every_seconds=3600, work=retention.retire),
    Task(name="retired", every_seconds=10, work=retention.hand_in),
    Task(name="deletions", every_seconds=10, work=deletions.go_on),
)


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Runs the tasks that are due, round after round, until it is stopped."""

    holder: UUID = field(default_factory=uuid7)
    clock: Callable[[], datetime] = clock.now
    #: For what is due; never goes back.
    ticks: Callable[[], float] = time.monotonic
    tasks: tuple[Task, ...] = TASKS
    #: Beside it, in a thread of its own: one of its steps may take a minute.
    eraser: Eraser = field(default_factory=Eraser)
    #: As well: it reads everything that there is.
    scanner: Scanner = field(default_factory=Scanner)
    #: And it, which waits for the model.
    consolidator: Consolidator = field(default_factory=Consolidator)
    observer: ThreadObserver = field(default_factory=ThreadObserver)
    _due: dict[str, float] = field(default_factory=dict)
    _loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self._loop = Loop(
            name="reconciler",
            worker=LEASE,
            work=self.round,
            pause=self.pause,
            last=self._release,
        )

    def start(self) -> None:
        """Loop in a thread of its own."""
        self._loop.start()
        self.eraser.start()
        self.scanner.start()
        self.consolidator.start()
        self.observer.start()

    def stop(self) -> None:
        """Finish the task at hand, give the lease up. The writer must still run."""
        self._loop.stopped.set()
        self.eraser.stop()
        self.scanner.stop()
        self.consolidator.stop()
        self.observer.stop()
        self._loop.stop()

    def wait(self) -> None:
        """Sleep while the thread loops."""
        self._loop.wait()

    def round(self) -> dict[str, int]:
        """Do what is due, if the lease is ours; returns how many rows by task."""
        done: dict[str, int] = {}
        # What a restore brought back is touched by nobody but who replays it.
        if maintenance.waiting and replays.look():
            return done
        # Of every process its own, whoever has the lease.
        activity.flush()
        if not (heartbeats.beat(self.holder) and self._hold()):
            # Whoever takes over later does everything at once.
            self._due.clear()
            return done
        for task in self._due_now():
            # Between tasks too: a long one must not look like a dead process.
            if self._loop.stopped.is_set() or clock.skewed or not self._hold():
                break
            self._due[task.name] = self.ticks() + task.every_seconds
            count = self._do(task)
            if count is not None:
                done[task.name] = count
                if count >= task.full:
                    self._due[task.name] = self.ticks()
        return done

    def once(self) -> dict[str, int] | None:
        """One round of every task, here; None while another process has the lease.

        Again for as long as there is more to do, so that nothing that is due is left.
        """
        self._due.clear()
        if not (heartbeats.beat(self.holder) and self._hold()):
            return None
        done: dict[str, int] = {}
        while self._due_now():
            for name, count in self.round().items():
                done[name] = done.get(name, 0) + count
        done["erasures"] = self.eraser.round()
        done["consolidation"] = self.consolidator.round()
        done["observing"] = self.observer.round()
        done["scans"] = self.scanner.round()
        if done["scans"]:
            # What waited for the night has its receipt at once.
            done["erasures"] += self.eraser.round()
        self._release()
        return done

    def pause(self) -> float:
        """Seconds until the next round: until a task is due, at most a round's."""
        soonest = min(self._due.values(), default=float("inf"))
        return max(0.0, min(ROUND_SECONDS, soonest - self.ticks()))

    def _due_now(self) -> list[Task]:
        now = self.ticks()
        return [task for task in self.tasks if self._due.get(task.name, now) <= now]

    def _do(self, task: Task) -> int | None:
        """Count the rows it put right; None when it failed, which stops no other."""
        try:
            return task.work(self.clock())
        except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
            kind = type(failure).__name__
            log.error("worker.failed", worker=task.name, code=kind)
            return None

    def _hold(self) -> bool:
        return leases.hold(LEASE, holder=self.holder, now=self.clock())

    def _release(self) -> None:
        leases.release(LEASE, holder=self.holder, now=self.clock())
        heartbeats.end(self.holder)
