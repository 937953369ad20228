"""Limits of failed sign-ins, by name, by address and by both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from memoryhub.models.access.operators import SignInFailure
from memoryhub.services.access.sign_ins import begin, succeed, to_network

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def address(n: int) -> str:
    return f"192.0.2.{n}"


def count_failed(name: str | None, where: str, times: int) -> int:
    """Count the tries that were let through to a password and failed."""
    return sum(begin(name, where) is not None for _ in range(times))


def test_five_failures_lock_a_name_at_an_address() -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        assert count_failed("olga", address(1), 7) == 5
        # Another name, or another address, is not locked.
        assert (
            count_failed("ann", address(1), 1)
            == count_failed("olga", address(2), 1)
            == 1
        )
        travel.move_to(NOON + 14 * MINUTE)
        assert count_failed("olga", address(1), 1) == 0
        travel.move_to(NOON + 15 * MINUTE)
        assert count_failed("olga", address(1), 1) == 1


def test_spread_out_failures_lock_nothing() -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        for n in range(9):
            travel.move_to(NOON + n * 4 * MINUTE)
            assert count_failed("olga", address(1), 1) == 1


def test_fifty_failures_an_hour_lock_an_address() -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        names = [f"name-{n}" for n in range(51)]
        assert sum(count_failed(name, address(1), 1) for name in names) == 50
        assert count_failed("olga", address(2), 1) == 1
        travel.move_to(NOON + 15 * MINUTE)
        # One more try is let through, and is the fiftieth within the hour again.
        assert count_failed("olga", address(1), 2) == 1


def test_hundred_failures_an_hour_lock_a_name() -> None:
    with time_machine.travel(NOON, tick=False):
        assert sum(count_failed("olga", address(n), 1) for n in range(101)) == 100
        assert count_failed("ann", address(1), 1) == 1


def test_failure_without_a_name_locks_the_address_alone() -> None:
    """Count nameless failures by address, so that one device locks out no other."""
    with time_machine.travel(NOON, tick=False):
        assert sum(count_failed(None, address(n), 1) for n in range(110)) == 110
        assert count_failed(None, address(1), 6) == 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "no address", False),
    ],
)
def test_ipv6_network_is_one_address(one: str, other: str, *, same: bool) -> None:
    assert (to_network(one) == to_network(other)) is same


def test_successful_sign_in_resets_the_failures() -> None:
    with time_machine.travel(NOON, tick=False):
        assert count_failed("olga", address(1), 4) == 4
        begun = begin("olga", address(1))
        assert begun is not None
        succeed(begun)
        assert not SignInFailure.objects.exists()
        assert count_failed("olga", address(1), 6) == 5
