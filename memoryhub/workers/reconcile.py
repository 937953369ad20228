"""The loop of all background work, in the server's process or by `manage.py worker`.

One of several processes does the work, under a lease; the others check that it lives. A
process whose clock is off does none: a wrong sweep or retirement can't be undone.
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
    cold,
    deletions,
    expiry,
    heartbeats,
    leases,
    levels,
    listing,
    predicates,
    retention,
    stats,
    sweeping,
)
from memoryhub.workers.consolidation import Consolidator
from memoryhub.workers.erasures import Eraser
from memoryhub.workers.loops import WorkerLoop
from memoryhub.workers.observing import ThreadObserver
from memoryhub.workers.overview import activity, alerts, unhealthy
from memoryhub.workers.scans import Scanner
from memoryhub.workers.search import terms
from memoryhub.workers.webhooks import WebhookSender

log = structlog.get_logger()

LEASE = "reconcile"
ROUND_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileTask:
    """A kind of background work: idempotent, and harmless when done twice."""

    name: str
    every_seconds: float
    #: Takes the time, returns how many rows it corrected.
    work: Callable[[datetime], int]
    #: Number of rows from which more may be left: then the task is due again at once.
    full: float = float("inf")


TASKS = (
    ReconcileTask(name="listing", every_seconds=10, work=listing.bring_up),
    ReconcileTask(name="levels", every_seconds=10, work=levels.make),
    ReconcileTask(
        name="predicates", every_seconds=10, work=predicates.fold_anew, full=1
    ),
    ReconcileTask(name="terms", every_seconds=30, work=terms.write_ahead, full=1),
    ReconcileTask(
        name="new_terms", every_seconds=2, work=terms.write_busy_threads, full=1
    ),
    ReconcileTask(name="stats", every_seconds=10, work=stats.take),
    ReconcileTask(name="unhealthy", every_seconds=10, work=unhealthy.look),
    ReconcileTask(
        name="expiry",
        every_seconds=settings.EXPIRY_INTERVAL_SECONDS,
        work=expiry.expire,
        full=expiry.AT_ONCE,
    ),
    ReconcileTask(
        name="values",
        every_seconds=settings.EXPIRY_INTERVAL_SECONDS,
        work=expiry.erase,
        full=expiry.AT_ONCE,
    ),
    ReconcileTask(
        name="request_keys", every_seconds=600, work=sweeping.delete_request_keys
    ),
    ReconcileTask(
        name="orphan_keys", every_seconds=600, work=sweeping.delete_orphan_keys
    ),
    ReconcileTask(name="imports", every_seconds=600, work=sweeping.delete_imports),
    ReconcileTask(name="sign_ins", every_seconds=600, work=sweeping.delete_sign_ins),
    ReconcileTask(name="activity", every_seconds=600, work=sweeping.delete_activity),
    ReconcileTask(name="old_alerts", every_seconds=600, work=sweeping.delete_alerts),
    ReconcileTask(
        name="webhooks",
        every_seconds=60,
        work=sweeping.delete_webhook_queues,
        full=sweeping.BATCH,
    ),
    ReconcileTask(name="cold", every_seconds=60, work=cold.move, full=1),
    ReconcileTask(name="ballast", every_seconds=60, work=ballast.keep),
    ReconcileTask(name="anchors", every_seconds=3600, work=anchors.anchor_heads),
    ReconcileTask(name="retention", every_seconds=3600, work=retention.retire),
    ReconcileTask(name="retired", every_seconds=10, work=retention.hand_in),
    ReconcileTask(name="deletions", every_seconds=10, work=deletions.advance_all),
    # Last: what was late only because nobody worked is done by now.
    ReconcileTask(name="alerts", every_seconds=30, work=alerts.look),
)


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Worker that runs the due tasks in rounds, until it is stopped."""

    holder: UUID = field(default_factory=uuid7)
    clock: Callable[[], datetime] = clock.now
    #: Monotonic clock for due times.
    ticks: Callable[[], float] = time.monotonic
    tasks: tuple[ReconcileTask, ...] = TASKS
    #: In a thread of its own: one of its steps may take a minute.
    eraser: Eraser = field(default_factory=Eraser)
    #: In a thread of its own: it reads the whole database.
    scanner: Scanner = field(default_factory=Scanner)
    #: In threads of their own: they wait for the model.
    consolidator: Consolidator = field(default_factory=Consolidator)
    observer: ThreadObserver = field(default_factory=ThreadObserver)
    #: In threads of its own: it waits for receivers.
    sender: WebhookSender = field(default_factory=WebhookSender)
    _due: dict[str, float] = field(default_factory=dict)
    _loop: WorkerLoop = field(init=False)

    def __post_init__(self) -> None:
        self._loop = WorkerLoop(
            name="reconciler",
            worker=LEASE,
            work=self.run_round,
            pause=self.compute_pause,
            last=self._release,
        )

    def start(self) -> None:
        """Loop in a thread of its own."""
        self._loop.start()
        self.eraser.start()
        self.scanner.start()
        self.consolidator.start()
        self.observer.start()
        self.sender.start()

    def stop(self) -> None:
        """Finish the current task, release the lease. The writer must still run."""
        self._loop.stopped.set()
        self.eraser.stop()
        self.scanner.stop()
        self.consolidator.stop()
        self.observer.stop()
        self.sender.stop()
        self._loop.stop()

    def wait(self) -> None:
        """Sleep while the thread loops."""
        self._loop.wait()

    def run_round(self) -> dict[str, int]:
        """Run the due tasks, if the lease is ours; return the row counts by task."""
        done: dict[str, int] = {}
        # After a restore, nothing runs until erasures have been replayed.
        if maintenance.waiting and replays.fence_and_count():
            return done
        # Each process writes its own counts, whoever has the lease.
        activity.flush()
        cold.return_looked()
        if not (heartbeats.beat(self.holder) and self._take_lease()):
            # A process that takes over later runs every task at once.
            self._due.clear()
            return done
        for task in self._list_due():
            # Renew between tasks too: a long task must not look like a dead process.
            if self._loop.stopped.is_set() or clock.is_skewed or not self._take_lease():
                break
            self._due[task.name] = self.ticks() + task.every_seconds
            count = self._run_task(task)
            if count is not None:
                done[task.name] = count
                if count >= task.full:
                    self._due[task.name] = self.ticks()
        return done

    def run_once(self) -> dict[str, int] | None:
        """Run every task, in this thread; None while another process has the lease.

        Repeats for as long as there is more to do, so that nothing due is left.
        """
        self._due.clear()
        if not (heartbeats.beat(self.holder) and self._take_lease()):
            return None
        done: dict[str, int] = {}
        while self._list_due():
            for name, count in self.run_round().items():
                done[name] = done.get(name, 0) + count
        done["erasures"] = self.eraser.run_round()
        done["consolidation"] = self.consolidator.run_round()
        done["observing"] = self.observer.run_round()
        done["deliveries"] = self.sender.run_round()
        done["scans"] = self.scanner.run_round()
        if done["scans"]:
            # An erasure that waited for the nightly scan gets its receipt at once.
            done["erasures"] += self.eraser.run_round()
        self._release()
        return done

    def compute_pause(self) -> float:
        """Return the seconds until a task is due, at most ROUND_SECONDS."""
        soonest = min(self._due.values(), default=float("inf"))
        return max(0.0, min(ROUND_SECONDS, soonest - self.ticks()))

    def _list_due(self) -> list[ReconcileTask]:
        now = self.ticks()
        return [task for task in self.tasks if self._due.get(task.name, now) <= now]

    def _run_task(self, task: ReconcileTask) -> int | None:
        """Run a task; return the rows that it corrected, or None if it failed.

        A failure stops no other task.
        """
        try:
            return task.work(self.clock())
        except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
            kind = type(failure).__name__
            log.error("worker.failed", worker=task.name, code=kind)
            return None

    def _take_lease(self) -> bool:
        """Take or keep the lease; return whether this process has it."""
        return leases.hold(LEASE, holder=self.holder, now=self.clock())

    def _release(self) -> None:
        leases.release(LEASE, holder=self.holder, now=self.clock())
        heartbeats.end(self.holder)
