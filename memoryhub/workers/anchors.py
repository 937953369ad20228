"""Anchoring: once an hour, and at shutdown, a signed ledger line covers all heads.

A line is signed only if the database still agrees with the last line: otherwise the
next line would confirm a tail that somebody had cut off.
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
    """The databases differ from the newest signed line."""

    def __init__(self, standing: standings.AnchorState) -> None:
        self.standing = standing
        super().__init__(standing.wrong)


def anchor_heads(now: datetime) -> int:
    """Anchor all heads; return how many threads had moved.

    Logs a difference and signs nothing then: `verify --all` explains the difference.
    """
    try:
        return move(at=now)
    except AnchorsDifferError as differing:
        log.error("anchors.refused", code=differing.standing.wrong)
    except (LedgerBrokenError, LedgerUnwritableError) as failure:
        log.error("anchors.refused", code=failure.code)
    return 0


def move(*, at: datetime, anew: bool = False) -> int:
    """Anchor all heads. `anew` accepts the present state unchecked, after a restore.

    Returns how many threads had moved. Raises AnchorsDifferError and
    LedgerUnwritableError; then nothing has moved.
    """
    standing = standings.check_anchors()
    if standing.wrong and not anew:
        raise AnchorsDifferError(standing)
    moved: int = journal.run(lambda: _move_anchors(at, anew=anew))
    return moved


def anchor_last() -> None:
    """Anchor all heads as the process ends, once its writer has ended."""
    try:
        if not maintenance.waiting:
            anchor_heads(clock.now())
    except DatabaseError as failure:
        log.error("anchors.refused", code=type(failure).__name__)
    finally:
        connections.close_all()


def _move_anchors(at: datetime, *, anew: bool) -> int:
    """Update the columns and note the line together; return how many threads moved.

    The line counts once the columns are committed.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 0")
        # Another process that anchors waits here until our line and columns are stored.
        Instance.objects.select_for_update().get()
        if anew:
            # A thread that no longer reaches its anchor is anchored from scratch.
            Thread.objects.filter(~_match_anchored(), anchored_seq__gt=0).update(
                anchored_seq=0, anchored_hash=b""
            )
        else:
            # Finish the line of a process that died between its commit and the keys
            # database.
            anchors.settle(lambda: standings.get_heads().of_threads)
        moved = _filter_due().update(
            anchored_seq=F("head_seq"), anchored_hash=F("head_hash")
        )
        line = anchors.draft(standings.get_heads(), at=at, anew=anew)
    # Only now: a noted line with older columns is a sign of tampering.
    anchors.note(line, anew=anew)
    return moved


def _filter_due() -> QuerySet[Thread]:
    """Return threads that moved since they were anchored.

    Skips a thread whose row a writer has locked, for an hour: nobody waits for anybody.
    """
    rows = Thread.objects.exclude(status=Thread.Status.IMPORTING)
    rows = rows.filter(head_seq__gt=F("anchored_seq"))
    rows = rows.filter(Q(anchored_seq=0) | _match_anchored())
    if connection.features.has_select_for_update_skip_locked:
        ids = rows.select_for_update(skip_locked=True, of=("self",)).values("id")
        return Thread.objects.filter(id__in=ids)
    return rows


def _match_anchored() -> Exists:
    """Match threads whose chain still has the anchored hash at the anchored seq."""
    return Exists(
        Event.objects.filter(
            thread=OuterRef("pk"),
            seq=OuterRef("anchored_seq"),
            chain=OuterRef("anchored_hash"),
        )
    )
