"""Rebuild of a thread's projections from its journal."""

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

#: Events folded before their rows are inserted.
CHUNK = 500


def rebuild(
    thread: Thread,
    *,
    progress: Callable[[int], None] = lambda events: None,
    origins: log.Origins | None = None,
) -> None:
    """Fold the journal and replace slots, turns, labels and the thread's columns.

    Runs in one transaction. Deletes snapshots and terms, which are made again later. An
    erased thread has no projections and is never folded again: nothing is changed.
    Raises CorruptError and changes nothing when events are missing. `thread` comes with
    its subject; rebuilds of several threads share `origins`. The totals count rows that
    exist again afterwards; `recount` computes the totals anew.
    """
    if thread.status == Thread.Status.ERASED:
        return
    with transaction.atomic():
        locked = Thread.objects.select_for_update().get(id=thread.id)
        Snapshot.objects.filter(thread=thread).delete()
        ThreadTerms.objects.filter(thread=thread).delete()
        projections.clear(thread.id)
        _refold_thread(log.build_origin(thread, origins=origins), locked, progress)


def recount(subjects: Iterable[UUID]) -> None:
    """Recount the totals of each subject. Reads all rows of these subjects."""
    for subject in subjects:
        run(partial(totals.recount, subject))


def _refold_thread(
    state: ThreadState, locked: Thread, progress: Callable[[int], None]
) -> None:
    """Fold the events from `state` and write their rows. Raises CorruptError."""
    digest, rows = b"", projections.ProjectedRows()
    for name in projections.ADDED_COLUMNS:
        setattr(locked, name, 0)
    for row in log.iter_rows(locked.id):
        if row.seq != state.seq + 1:
            raise CorruptError(missing_seq=state.seq + 1)
        recorded = log.to_recorded(row)
        after = evolve(state, recorded)
        projections.project(rows, state, recorded, after)
        state, digest = after, bytes(row.chain)
        if state.seq % CHUNK == 0:
            projections.write(rows)
            projections.add_request_tokens(locked, rows)
            rows = projections.ProjectedRows()
            progress(CHUNK)
    # A journal that lost its tail must not move the head back.
    if (state.seq, digest) != (locked.head_seq, bytes(locked.head_hash)):
        raise CorruptError(missing_seq=state.seq + 1)
    projections.write(rows)
    projections.add_request_tokens(locked, rows)
    projections.write_labels([state])
    for name, value in projections.build_columns(state).items():
        setattr(locked, name, value)
    locked.save()
    progress(state.seq % CHUNK)
