"""Sign-ins: how often somebody may be wrong, by name, by address and by both.

What was typed is kept nowhere: a failure is two keyed digests and a time.
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

#: So long nobody gets in who was wrong too often, counted from the last failure.
LOCKED_FOR = timedelta(minutes=15)
#: IPv6 gives each customer as many addresses as they like below this prefix.
_IPV6_PREFIX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """So many failures within so long lock whoever made them out."""

    failures: int
    within: timedelta


BOTH = Limit(failures=5, within=timedelta(minutes=15))
ADDRESS = Limit(failures=50, within=timedelta(hours=1))
NAME = Limit(failures=100, within=timedelta(hours=1))


def begin(name: str | None, address: str) -> SignInFailure | None:
    """Note a try as a failure, or None if there were too many; see `succeed`.

    Before the password is looked at, so that many tries at once are no way around.
    A name of None is nobody's own, so it locks only the address.
    """

    def note() -> SignInFailure | None:
        now, by_address = clock.now(), _digest("address", network(address))
        by_name = _digest("name", name or "")
        limits = [
            (BOTH, {"name": by_name, "address": by_address}),
            (ADDRESS, {"address": by_address}),
        ]
        if name is not None:
            limits.append((NAME, {"name": by_name}))
        with transaction.atomic():
            if any(_locked(limit, of, now) for limit, of in limits):
                return None
            return SignInFailure.objects.create(
                at=now, name=by_name, address=by_address
            )

    noted: SignInFailure | None = journal.run(note)
    return noted


def succeed(begun: SignInFailure) -> None:
    """Forget the try, which was none, and those before it by this name from there."""
    same = SignInFailure.objects.filter(name=begun.name, address=begun.address)
    journal.run(same.delete)


def network(address: str) -> str:
    """Return what counts as one address: itself, or of IPv6 its /64."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        if found.version == 6:
            return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
    return address


def _locked(limit: Limit, of: dict[str, bytes], now: datetime) -> bool:
    rows = SignInFailure.objects.filter(**of, at__gt=now - limit.within - LOCKED_FOR)
    newest = rows.order_by("-at").values_list("at", flat=True)[: limit.failures]
    times = [*newest]
    if len(times) < limit.failures or now - times[0] >= LOCKED_FOR:
        return False
    return times[0] - times[-1] <= limit.within


def _digest(kind: str, text: str) -> bytes:
    return blind_index.sign_in(keyring.ring().current, kind, text)
