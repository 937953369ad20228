"""WebAuthn ceremonies: a challenge is kept in the session until its answer comes.

It counts once, and for five minutes. One that waits is dropped by the next.
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
    """Name us as the browser does. The host is one of ours."""
    host = request.get_host().lower()
    name, _, port = host.rpartition(":")
    return Site(
        host=name if port.isdigit() and name else host,
        origin=f"{request.scheme}://{host}",
    )


def begin(request: HttpRequest, kind: str, state: State) -> None:
    """Keep a challenge of this kind in the session."""
    at = clock.now().isoformat()
    request.session[_KEY] = {"kind": kind, "state": dict(state), "at": at}
    if not request.user.is_authenticated:
        # A session that is nobody's yet is worth no more than what it waits for.
        request.session.set_expiry(SECONDS)


def take(request: HttpRequest, kind: str) -> State | None:
    """Take the challenge out of the session; None when it is too old or another."""
    kept: Mapping[str, Any] | None = request.session.pop(_KEY, None)
    if kept is None or kept["kind"] != kind:
        return None
    age = clock.now() - datetime.fromisoformat(kept["at"])
    state: State = kept["state"]
    return state if age <= timedelta(seconds=SECONDS) else None
