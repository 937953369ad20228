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
from memoryhub.workers.loops import Loop

#: Three rounds of the loop: a slow one does not hand the work over.
LEASE = timedelta(seconds=30)
#: Between two beats of what takes long; a lease lives three times as long.
BEAT_SECONDS = 10.0
#: What no clock that is true can have written: it died with another time.
_ABSURD = 2 * LEASE


@dataclass(slots=True, kw_only=True)
class Held:
    """The lease of work that takes long: a beat beside the work keeps it."""

    name: str
    holder: UUID = field(default_factory=uuid7)
    clock: Callable[[], datetime] = clock.now
    beat_seconds: float = BEAT_SECONDS
    #: Set when another process may have it: what is at hand is to be given up.
    lost: threading.Event = field(default_factory=threading.Event)

    def take(self) -> bool:
        return hold(self.name, holder=self.holder, now=self.clock())

    def release(self) -> None:
        release(self.name, holder=self.holder, now=self.clock())

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Keep the lease, on a connection that no cursor of the work is open on."""
        self.lost.clear()
        beat = Loop(
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
    """Take the lease or keep it; False while another process has it.

    Also the heartbeat: `beaten_at` moves with each call that succeeds. One statement,
    and one more the first time ever.
    """

    def take() -> bool:
        rows = Lease.objects.filter(name=name)
        ended = Q(expires_at__lte=now) | Q(expires_at__gt=now + _ABSURD)
        free = rows.filter(Q(holder=holder) | ended)
        if free.update(holder=holder, beaten_at=now, expires_at=now + LEASE):
            return True
        return not rows.exists() and _insert(name, holder=holder, now=now)

    held: bool = journal.run(take)
    return held


def release(name: str, *, holder: UUID, now: datetime) -> None:
    """Give the lease up, so that another process needs not wait for its end."""
    rows = Lease.objects.filter(name=name, holder=holder)
    journal.run(lambda: rows.update(expires_at=now))


def _insert(name: str, *, holder: UUID, now: datetime) -> bool:
    try:
        with transaction.atomic():
            Lease.objects.create(
                name=name, holder=holder, beaten_at=now, expires_at=now + LEASE
            )
    except IntegrityError:
        return False  # another process was faster
    return True
