"""Sign-ins: limits on failures by name, by address and by both together.

No typed text is stored: a failure is two keyed digests and a time. See decision 41.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from memoryhub import journal
from memoryhub.models.access.operators import SignInFailure
from memoryhub.models.server.clock import clock
from memoryhub.vault.keys import blind_index, keyring

#: Duration of a lock, counted from the last failure.
LOCKED_FOR = timedelta(minutes=15)
#: Prefix length of the IPv6 network that counts as one address.
_IPV6_PREFIX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLimit:
    """Number of failures within a period that locks out a name, an address or both."""

    failures: int
    within: timedelta


BOTH = SignInLimit(failures=5, within=timedelta(minutes=15))
ADDRESS = SignInLimit(failures=50, within=timedelta(hours=1))
NAME = SignInLimit(failures=100, within=timedelta(hours=1))


def begin(name: str | None, address: str) -> SignInFailure | None:
    """Record a try as a failure; None if the limit was reached; see `succeed`.

    Callers record before they check the password, so that parallel tries are counted.
    With no name, as for an unknown account, only the address is locked.
    """

    def note() -> SignInFailure | None:
        now, by_address = clock.now(), _hash_text("address", to_network(address))
        by_name = _hash_text("name", name or "")
        limits = [
            (BOTH, {"name": by_name, "address": by_address}),
            (ADDRESS, {"address": by_address}),
        ]
        if name is not None:
            limits.append((NAME, {"name": by_name}))
        with transaction.atomic():
            if any(_is_locked(limit, of, now) for limit, of in limits):
                return None
            return SignInFailure.objects.create(
                at=now, name=by_name, address=by_address
            )

    noted: SignInFailure | None = journal.run(note)
    return noted


def succeed(begun: SignInFailure) -> None:
    """Delete the try and the earlier failures of this name from this address."""
    same = SignInFailure.objects.filter(name=begun.name, address=begun.address)
    journal.run(same.delete)


def to_network(address: str) -> str:
    """Convert an address to the network that is counted: itself, or the /64 of IPv6."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        if found.version == 6:
            return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
    return address


def _is_locked(limit: SignInLimit, of: dict[str, bytes], now: datetime) -> bool:
    """Return whether the newest failures reach the limit and the lock still holds."""
    rows = SignInFailure.objects.filter(**of, at__gt=now - limit.within - LOCKED_FOR)
    newest = rows.order_by("-at").values_list("at", flat=True)[: limit.failures]
    times = [*newest]
    if len(times) < limit.failures or now - times[0] >= LOCKED_FOR:
        return False
    return times[0] - times[-1] <= limit.within


def _hash_text(kind: str, text: str) -> bytes:
    """Hash a name or address with a key."""
    return blind_index.digest_sign_in(keyring.get_ring().current, kind, text)
