"""Anchoring: once an hour, and at the end, all heads are vouched for outside.

A line is only signed over what the last one still vouches for: whoever cuts a tail off
must not have the next line bless it.
"""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from memoryhub import journal
from memoryhub.errors import LedgerBrokenError, LedgerUnwritableError
from memoryhub.models.events import Event
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.verify import anchors as standings
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.vault.proof import anchors

log = structlog.get_logger()


class AnchorsDifferError(Exception):
    """The databases are not as the newest signed line says."""

    def __init__(self, standing: standings.Standing) -> None:
        self.standing = standing
        super().__init__(standing.wrong)


def anchor(now: datetime) -> int:
    """Vouch for all heads; returns how many threads had moved.

    What is wrong is logged, and nothing is signed: `verify --all` says what it is.
    """
    try:
        return move(at=now)
    except AnchorsDifferError as differing:
        log.error("anchors.refused", code=differing.standing.wrong)
    except (LedgerBrokenError, LedgerUnwritableError) as failure:
        log.error("anchors.refused", code=failure.code)
    return 0


def move(*, at: datetime, anew: bool = False) -> int:
    """Do as `anchor` does. With `anew` whatever is there counts: after a restore.

    Raises AnchorsDifferError and LedgerUnwritableError; then nothing has moved.
    """
    standing = standings.get_standing()
    if standing.wrong and not anew:
        raise AnchorsDifferError(standing)
    moved: int = journal.run(lambda: _move(at, anew=anew))
    return moved


def last() -> None:
    """Vouch for all heads as the process ends, once its writer has."""
    try:
        if not maintenance.waiting:
            anchor(clock.now())
    except DatabaseError as failure:
        log.error("anchors.refused", code=type(failure).__name__)
    finally:
        connections.close_all()


def _move(at: datetime, *, anew: bool) -> int:
    """Bring columns and line into force together: the line counts once they do."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 0")
        # Another process that anchors waits here until our line and columns are there.
        Instance.objects.select_for_update().get()
        if anew:
            # A thread that no longer reaches its anchor is vouched for from scratch.
            Thread.objects.filter(~_vouched(), anchored_seq__gt=0).update(
                anchored_seq=0, anchored_hash=b""
            )
        else:
            # Whoever died between its commit and the keys database has left that.
            anchors.settle(lambda: standings.get_heads().of_threads)
        moved = _due().update(anchored_seq=F("head_seq"), anchored_hash=F("head_hash"))
        line = anchors.draft(standings.get_heads(), at=at, anew=anew)
    # Only now: a noted line whose columns are older is one that was tampered with.
    anchors.note(line, anew=anew)
    return moved


def _due() -> QuerySet[Thread]:
    """Return threads that went on from where they were anchored.

    One that a writer holds is passed over, for an hour: nobody waits for anybody.
    """
    rows = Thread.objects.exclude(status=Thread.Status.IMPORTING)
    rows = rows.filter(head_seq__gt=F("anchored_seq"))
    rows = rows.filter(Q(anchored_seq=0) | _vouched())
    if connection.features.has_select_for_update_skip_locked:
        ids = rows.select_for_update(skip_locked=True, of=("self",)).values("id")
        return Thread.objects.filter(id__in=ids)
    return rows


def _vouched() -> Exists:
    """Tell whether the chain still has, at the anchored seq, the anchored hash."""
    return Exists(
        Event.objects.filter(
            thread=OuterRef("pk"),
            seq=OuterRef("anchored_seq"),
            chain=OuterRef("anchored_hash"),
        )
    )
