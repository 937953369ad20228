"""Leases: one process does a kind of work, and another takes over when it dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from memoryhub import journal
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.server.leases import Lease
from memoryhub.workers.loops import WorkerLoop

#: Three rounds of the loop: a slow round does not lose the lease.
LEASE = timedelta(seconds=30)
#: Seconds between two beats of long work; a lease lives three times as long.
BEAT_SECONDS = 10.0
#: No right clock can have written a later expiry; such a lease is void.
_ABSURD = 2 * LEASE


@dataclass(slots=True, kw_only=True)
class HeldLease:
    """The lease of long work: a beating thread beside the work keeps it."""

    name: str
    holder: UUID = field(default_factory=uuid7)
    clock: Callable[[], datetime] = clock.now
    beat_seconds: float = BEAT_SECONDS
    #: Set when another process may have the lease: the current work must be given up.
    lost: threading.Event = field(default_factory=threading.Event)

    def take(self) -> bool:
        """Take or keep the lease; return whether the holder has it."""
        return hold(self.name, holder=self.holder, now=self.clock())

    def release(self) -> None:
        release(self.name, holder=self.holder, now=self.clock())

    @contextmanager
    def keep_beating(self) -> Iterator[None]:
        """Keep the lease while the block runs, by a thread with its own connection."""
        self.lost.clear()
        beat = WorkerLoop(
            name=f"{self.name}-beat",
            worker=self.name,
            work=self._beat,
            pause=lambda: self.beat_seconds,
        )
        beat.start()
        try:
            yield
        finally:
            beat.stop()

    def _beat(self) -> None:
        held = False
        try:
            held = self.take()
        finally:
            if not held:
                self.lost.set()


def hold(name: str, *, holder: UUID, now: datetime) -> bool:
    """Hold the lease, or take it; return False while another process has it.

    It is the heartbeat too: `beaten_at` moves with each call that succeeds. One
    statement, and one more the first time ever.
    """

    def take() -> bool:
        """Take a lease that is free; return whether it was."""
        rows = Lease.objects.filter(name=name)
        ended = Q(expires_at__lte=now) | Q(expires_at__gt=now + _ABSURD)
        free = rows.filter(Q(holder=holder) | ended)
        if free.update(holder=holder, beaten_at=now, expires_at=now + LEASE):
            return True
        return not rows.exists() and _insert_lease(name, holder=holder, now=now)

    held: bool = journal.run(take)
    return held


def release(name: str, *, holder: UUID, now: datetime) -> None:
    """Release the lease, so that another process need not wait for its expiry."""
    rows = Lease.objects.filter(name=name, holder=holder)
    journal.run(lambda: rows.update(expires_at=now))


def _insert_lease(name: str, *, holder: UUID, now: datetime) -> bool:
    """Insert the first row of a lease; return False if another process was faster."""
    try:
        with transaction.atomic():
            Lease.objects.create(
                name=name, holder=holder, beaten_at=now, expires_at=now + LEASE
            )
    except IntegrityError:
        return False
    return True
