"""Anchoring: once an hour, and at shutdown, a signed ledger line covers all heads.

A line is signed only if the database still agrees with the last line: otherwise the
next line would confirm a tail that somebody had cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, TypeAlias
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import F, QuerySet

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

#: A thread, and the seq and hash that it is anchored at.
Anchor: TypeAlias = tuple[UUID, int, bytes]
#: Threads whose events one statement looks up.
AT_ONCE: Final = 200


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
            anchored = Thread.objects.filter(anchored_seq__gt=0)
            for batch in _iter_anchors(anchored):
                lost = Thread.objects.filter(id__in=_find_lost(batch))
                lost.update(anchored_seq=0, anchored_hash=b"")
        else:
            # Finish the line of a process that died between its commit and the keys
            # database.
            anchors.settle(lambda: standings.get_heads().of_threads)
        moved = 0
        for batch in _iter_anchors(_select_moved()):
            due = {thread for thread, _, _ in batch} - _find_lost(batch)
            moved += Thread.objects.filter(id__in=due).update(
                anchored_seq=F("head_seq"), anchored_hash=F("head_hash")
            )
        line = anchors.draft(standings.get_heads(), at=at, anew=anew)
    # Only now: a noted line with older columns is a sign of tampering.
    anchors.note(line, anew=anew)
    return moved


def _select_moved() -> QuerySet[Thread]:
    """Select threads that moved since they were anchored.

    Skips a thread whose row a writer has locked, for an hour: nobody waits for anybody.
    """
    rows = Thread.objects.exclude(status=Thread.Status.IMPORTING)
    rows = rows.filter(head_seq__gt=F("anchored_seq"))
    if connection.features.has_select_for_update_skip_locked:
        return rows.select_for_update(skip_locked=True, of=("self",))
    return rows


def _iter_anchors(threads: QuerySet[Thread]) -> Iterator[list[Anchor]]:
    """Yield what threads are anchored at, in batches. One query."""
    rows = threads.values_list("id", "anchored_seq", "anchored_hash")
    found = [(thread, seq, bytes(digest)) for thread, seq, digest in rows]
    for start in range(0, len(found), AT_ONCE):
        yield found[start : start + AT_ONCE]


def _find_lost(batch: Iterable[Anchor]) -> set[UUID]:
    """Find threads whose chain lacks the anchored hash at the anchored seq.

    One query. A join would not do: a cluster keeps events apart from threads.
    """
    wanted = {(thread, seq): digest for thread, seq, digest in batch if seq}
    rows = Event.objects.filter_places(wanted)
    whole = {
        thread
        for thread, seq, digest in rows.values_list("thread_id", "seq", "chain")
        if wanted[thread, seq] == bytes(digest)
    }
    return {thread for thread, _ in wanted} - whole
