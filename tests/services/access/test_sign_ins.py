"""How often somebody may be wrong, by name, by address and by both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from memoryhub.models.access.operators import SignInFailure
from memoryhub.services.access.sign_ins import begin, network, succeed

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def address(n: int) -> str:
    return f"192.0.2.{n}"


def failed(name: str | None, where: str, times: int) -> int:
    """How many of so many tries were let through to a password, and failed."""
    return sum(begin(name, where) is not None for _ in range(times))


def test_five_failures_lock_a_name_at_an_address() -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        assert failed("olga", address(1), 7) == 5
        # Nobody else, and not her from elsewhere.
        assert failed("ann", address(1), 1) == failed("olga", address(2), 1) == 1
        travel.move_to(NOON + 14 * MINUTE)
        assert failed("olga", address(1), 1) == 0
        travel.move_to(NOON + 15 * MINUTE)
        assert failed("olga", address(1), 1) == 1


def test_five_failures_may_be_far_apart() -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        for n in range(9):
            travel.move_to(NOON + n * 4 * MINUTE)
            assert failed("olga", address(1), 1) == 1


def test_fifty_failures_an_hour_lock_an_address() -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        names = [f"name-{n}" for n in range(51)]
        assert sum(failed(name, address(1), 1) for name in names) == 50
        assert failed("olga", address(2), 1) == 1
        travel.move_to(NOON + 15 * MINUTE)
        # One more is let through, and is the fiftieth within the hour again.
        assert failed("olga", address(1), 2) == 1


def test_a_hundred_failures_an_hour_lock_a_name() -> None:
    with time_machine.travel(NOON, tick=False):
        assert sum(failed("olga", address(n), 1) for n in range(101)) == 100
        assert failed("ann", address(1), 1) == 1


def test_nobodys_name_locks_the_address_alone() -> None:
    """Else whoever shows a device without a name would lock out all who do."""
    with time_machine.travel(NOON, tick=False):
        assert sum(failed(None, address(n), 1) for n in range(110)) == 110
        assert failed(None, address(1), 6) == 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "no address", False),
    ],
)
def test_an_ipv6_network_is_one_address(one: str, other: str, *, same: bool) -> None:
    assert (network(one) == network(other)) is same


def test_who_gets_in_has_not_failed() -> None:
    with time_machine.travel(NOON, tick=False):
        assert failed("olga", address(1), 4) == 4
        begun = begin("olga", address(1))
        assert begun is not None
        succeed(begun)
        assert not SignInFailure.objects.exists()
        assert failed("olga", address(1), 6) == 5
