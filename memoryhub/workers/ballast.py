"""Ballast: stands on the disk from the start, and again once an erasure has used it."""

from __future__ import annotations

from datetime import datetime

from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget.erasures import CLOSED
from memoryhub.services.forget import ballast


def keep(now: datetime) -> int:
    """Make it if it is not there; 1 if it was made.

    Not while an erasure is on its way, which may have given it up for room.
    """
    if ballast.standing():
        return 0
    rows = Erasure.objects.exclude(state__in=CLOSED)
    if rows.filter(confirmed_at__isnull=False).exists():
        return 0
    return int(ballast.make())
