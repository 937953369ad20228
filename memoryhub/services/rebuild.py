"""Rebuild: a thread's projections written again from its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from uuid import UUID

from django.db import transaction

from memoryhub.errors import CorruptError
from memoryhub.journal import run
from memoryhub.journal.log import log
from memoryhub.journal.rows import projections, totals
from memoryhub.kernel.replay import evolve
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Snapshot, ThreadTerms
from memoryhub.models.threads import Thread

#: Rows inserted at once.
CHUNK = 500


def rebuild(
    thread: Thread,
    *,
    progress: Callable[[int], None] = lambda events: None,
    origins: log.Origins | None = None,
) -> None:
    """Fold the journal and replace slots, turns, labels and the thread's columns.

    In one transaction; snapshots and terms go, and come back later. An erased
    thread has none of them, and is never folded again: it is left as it is. Raises
    CorruptError and changes nothing when events are missing. `thread` comes with its
    subject; threads that are rebuilt together share `origins`. The totals count rows
    that are there again afterwards; `recount` makes them anew.
    """
    if thread.status == Thread.Status.ERASED:
        return
    with transaction.atomic():
        locked = Thread.objects.select_for_update().get(id=thread.id)
        Snapshot.objects.filter(thread=thread).delete()
        ThreadTerms.objects.filter(thread=thread).delete()
        projections.clear(thread.id)
        _refold(log.origin(thread, origins=origins), locked, progress)


def recount(subjects: Iterable[UUID]) -> None:
    """Count anew how much there is of each of them. Reads all that is theirs."""
    for subject in subjects:
        run(partial(totals.recount, subject))


def _refold(
    state: ThreadState, locked: Thread, progress: Callable[[int], None]
) -> None:
    digest, rows = b"", projections.Rows()
    for row in log.iter_rows(locked.id):
        if row.seq != state.seq + 1:
            raise CorruptError(missing_seq=state.seq + 1)
        recorded = log.recorded(row)
        after = evolve(state, recorded)
        projections.project(rows, state, recorded, after)
        state, digest = after, bytes(row.chain)
        if state.seq % CHUNK == 0:
            projections.write(rows)
            rows = projections.Rows()
            progress(CHUNK)
    # A journal that lost its tail must not pull the head back over the loss.
    if (state.seq, digest) != (locked.head_seq, bytes(locked.head_hash)):
        raise CorruptError(missing_seq=state.seq + 1)
    projections.write(rows)
    projections.write_labels([state])
    for name, value in projections.columns(state).items():
        setattr(locked, name, value)
    locked.save()
    progress(state.seq % CHUNK)
