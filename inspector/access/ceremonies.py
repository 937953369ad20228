"""Ceremonies: what a device was asked, kept in the session until there is an answer.

Once, and for five minutes. One that waits is dropped by the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest

from memoryhub.models.server.clock import clock
from memoryhub.services.access.passkeys import Site, State

SECONDS: Final = 300
_KEY = "ceremony"
ADDING, ENTERING = "adding", "entering"


def site(request: HttpRequest) -> Site:
    """Where the browser sees us, as it would say itself. The host is one of ours."""
    host = request.get_host().lower()
    name, _, port = host.rpartition(":")
    return Site(
        host=name if port.isdigit() and name else host,
        origin=f"{request.scheme}://{host}",
    )


def begin(request: HttpRequest, kind: str, state: State) -> None:
    at = clock.now().isoformat()
    request.session[_KEY] = {"kind": kind, "state": dict(state), "at": at}
    if not request.user.is_authenticated:
        # A session that is nobody's yet is worth no more than what it waits for.
        request.session.set_expiry(SECONDS)


def take(request: HttpRequest, kind: str) -> State | None:
    """What was asked, if it still counts; it never will again."""
    kept: Mapping[str, Any] | None = request.session.pop(_KEY, None)
    if kept is None or kept["kind"] != kind:
        return None
    age = clock.now() - datetime.fromisoformat(kept["at"])
    state: State = kept["state"]
    return state if age <= timedelta(seconds=SECONDS) else None
