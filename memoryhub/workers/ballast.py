"""Ballast: a file that reserves disk space, remade after an erasure has used it."""

from __future__ import annotations

from datetime import datetime

from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget.erasures import CLOSED
from memoryhub.services.forget import ballast


def keep(now: datetime) -> int:
    """Create the ballast file if it is absent; return 1 if it was created.

    Not while a confirmed erasure is running, which may have deleted the file for room.
    """
    if ballast.is_complete():
        return 0
    rows = Erasure.objects.exclude(state__in=CLOSED)
    if rows.filter(confirmed_at__isnull=False).exists():
        return 0
    return int(ballast.ensure_ballast())
