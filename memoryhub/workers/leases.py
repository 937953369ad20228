"""Leases: one process does a kind of work, and another takes over when it dies."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from memoryhub import journal
from memoryhub.models.server.leases import Lease

#: Three rounds of the loop: a slow one does not hand the work over.
LEASE = timedelta(seconds=30)
#: What no clock that is true can have written: it died with another time.
_ABSURD = 2 * LEASE


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
