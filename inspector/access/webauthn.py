"""WebAuthn ceremonies: the session keeps a challenge until its answer comes.

A challenge is good once, for five minutes. The next challenge replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest

from memoryhub.models.server.clock import clock
from memoryhub.services.access.passkeys import PasskeySite, State

SECONDS: Final = 300
_KEY = "ceremony"
ADDING, ENTERING = "adding", "entering"


def build_site(request: HttpRequest) -> PasskeySite:
    """Build the site as the browser names it. The host is one of this server."""
    host = request.get_host().lower()
    name, _, port = host.rpartition(":")
    return PasskeySite(
        host=name if port.isdigit() and name else host,
        origin=f"{request.scheme}://{host}",
    )


def begin(request: HttpRequest, kind: str, state: State) -> None:
    """Keep a challenge of this kind in the session."""
    at = clock.now().isoformat()
    request.session[_KEY] = {"kind": kind, "state": dict(state), "at": at}
    if not request.user.is_authenticated:
        # A session without an operator lives no longer than its challenge.
        request.session.set_expiry(SECONDS)


def take(request: HttpRequest, kind: str) -> State | None:
    """Take the session's challenge; None if it is too old or of another kind."""
    kept: Mapping[str, Any] | None = request.session.pop(_KEY, None)
    if kept is None or kept["kind"] != kind:
        return None
    age = clock.now() - datetime.fromisoformat(kept["at"])
    state: State = kept["state"]
    return state if age <= timedelta(seconds=SECONDS) else None
