from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from memoryhub.models.server.leases import Lease
from memoryhub.workers import leases

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
ANN, BOB = uuid4(), uuid4()


def test_lease_is_held_by_one_of_two() -> None:
    assert leases.hold("tidy", holder=ANN, now=NOON)
    assert not leases.hold("tidy", holder=BOB, now=NOON)
    assert leases.hold("other", holder=BOB, now=NOON)


def test_lease_holder_renews_its_lease() -> None:
    leases.hold("tidy", holder=ANN, now=NOON)
    later = NOON + timedelta(seconds=20)
    assert leases.hold("tidy", holder=ANN, now=later)
    row = Lease.objects.get(name="tidy")
    assert (row.holder, row.beaten_at, row.expires_at - later) == (
        ANN,
        later,
        leases.LEASE,
    )


def test_lease_passes_on_when_its_holder_has_died() -> None:
    leases.hold("tidy", holder=ANN, now=NOON)
    end = NOON + leases.LEASE
    assert not leases.hold("tidy", holder=BOB, now=end - timedelta(microseconds=1))
    assert leases.hold("tidy", holder=BOB, now=end)
    assert not leases.hold("tidy", holder=ANN, now=end)


def test_lease_dated_far_ahead_passes_on_at_once() -> None:
    """Otherwise nobody would work until the machine's old clock is reached."""
    leases.hold("tidy", holder=ANN, now=NOON + timedelta(days=90))
    assert leases.hold("tidy", holder=BOB, now=NOON)


def test_lease_passes_on_at_once_when_released() -> None:
    leases.hold("tidy", holder=ANN, now=NOON)
    leases.release("tidy", holder=BOB, now=NOON)
    assert not leases.hold("tidy", holder=BOB, now=NOON)
    leases.release("tidy", holder=ANN, now=NOON)
    assert leases.hold("tidy", holder=BOB, now=NOON)
