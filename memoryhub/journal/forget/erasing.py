"""Erasing: what only the eraser may do to a journal. Called in the writer's thread.

The orders stand in the journal first; then what they name goes, a batch at a time, each
step idempotent. A thread that is erased is never folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from django.db import transaction

from memoryhub.errors import Refusal
from memoryhub.journal.log import announce, log, outlines, snapshots
from memoryhub.journal.log.heads import Heads
from memoryhub.journal.log.orders import Address, Order
from memoryhub.journal.writing.batch import Batch
from memoryhub.journal.writing.writer import run, writer
from memoryhub.kernel.commands import EraseRecords, EraseThread
from memoryhub.kernel.state.erase_events import Range, Reason
from memoryhub.models.events import Snapshot
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys

#: Threads that one transaction ends at most.
AT_ONCE = 200
#: Records that one event takes at most: it takes their payloads along at once.
RECORDS = 1_000


def actor(erasure: UUID) -> str:
    """Who these orders are from."""
    return f"eraser:{erasure}"


def erase_threads(
    threads: Sequence[Thread], *, erasure: UUID, reason: Reason
) -> dict[UUID, int]:
    """Append thread.erased to each of at most 200 threads; by thread, its seq.

    Inside the caller's transaction, which holds the subject. Needs no key and folds
    nothing. A thread that is erased already is left out.
    """
    command = EraseThread(erasure=erasure, reason=reason)
    return _append(outlines.Outlines(), threads, command, erasure)


def erase_records(
    ranges: Sequence[Range], *, erasure: UUID, reason: Reason
) -> dict[UUID, int]:
    """Append records.erased to all threads that hold or inherit the records.

    By thread, its seq. Inside the caller's transaction, which holds the subject; their
    payloads go with it, so hand in chunks as `chunks` makes them. Threads where nothing
    of it is left, and erased ones, are left out: a repeat appends nothing.
    """
    seqs: dict[UUID, int] = {}
    command = EraseRecords(erasure=erasure, reason=reason, ranges=tuple(ranges))
    threads = [*concerned(ranges)]
    for start in range(0, len(threads), AT_ONCE):
        batch = threads[start : start + AT_ONCE]
        # The process's own heads, so that a chunk folds nothing that the last one did.
        # A head that a rollback takes back is told by its chain.
        seqs |= _append(writer.journal.heads, batch, command, erasure)
    return seqs


def _append(
    heads: Heads,
    threads: Sequence[Thread],
    command: EraseThread | EraseRecords,
    erasure: UUID,
) -> dict[UUID, int]:
    if not threads:
        return {}
    orders = [
        Order(
            address=Address(project=each.project_id, name=each.name),
            command=command,
            actor=actor(erasure),
        )
        for each in threads
    ]
    seqs: dict[UUID, int] = {}
    notices = []
    outcomes = Batch(heads=heads, clock=clock.now).run(orders, locked=True)
    for order, outcome in zip(orders, outcomes, strict=True):
        if isinstance(outcome, Refusal):
            raise outcome
        if outcome.events:
            seqs[outcome.thread] = outcome.seq
            notices.append((order.address.project, outcome.thread, outcome.seq))
    transaction.on_commit(lambda: announce.ring(notices))
    return seqs


def concerned(ranges: Iterable[Range]) -> dict[Thread, int]:
    """Find threads that hold these records, and the forks that inherit some of them.

    In the order of their ids, each with the first seq from which on it holds something;
    of a fork that is 0, for all of it comes after what it inherits. Erased ones are
    left out. One query for each generation of forks.
    """
    since: dict[UUID, int] = {}
    for thread, first, _ in ranges:
        since[thread] = min(first, since.get(thread, first))
    found = Thread.objects.in_bulk([*since])
    parents = [*found]
    while parents:
        forks = Thread.objects.filter(parent__in=parents)
        parents = []
        for fork in forks:
            assert fork.parent_id is not None
            assert fork.fork_seq is not None
            if fork.fork_seq >= since[fork.parent_id]:
                found[fork.id] = fork
                since[fork.id] = 0
                parents.append(fork.id)
    # An import that is under way is nobody's memory yet.
    out = (Thread.Status.ERASED, Thread.Status.IMPORTING)
    return {
        row: since[row.id]
        for row in sorted(found.values(), key=lambda row: row.id)
        if row.status not in out
    }


def chunks(ranges: Iterable[Range], *, size: int = RECORDS) -> Iterator[list[Range]]:
    """The ranges in pieces of at most `size` records and as many ranges."""
    piece: list[Range] = []
    room = size
    for thread, first, last in ranges:
        start = first
        while start <= last:
            end = min(last, start + room - 1)
            piece.append((thread, start, end))
            room -= end - start + 1
            start = end + 1
            if not room:
                yield piece
                piece, room = [], size
    if piece:
        yield piece


def reseal(thread: Thread) -> int:
    """Make the snapshots of a thread anew, of which erasing took some; how many.

    `thread` comes with its subject. Folds its whole journal, so it is the one thing
    here that is not called in the writer's thread: it only writes there.
    """
    if thread.status == Thread.Status.ERASED:
        return 0
    key = keys.subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    there = Snapshot.objects.filter(thread=thread).values_list("seq", flat=True)
    stored, kept_seq, made = {*there}, 0, 0
    for state in log.states(thread):
        if state.seq in stored or not snapshots.due(state, kept_seq=kept_seq):
            kept_seq = state.seq if state.seq in stored else kept_seq
            continue
        run(partial(_keep, snapshots.snapshot_row(state, key=key)))
        kept_seq, made = state.seq, made + 1
    return made


def _keep(row: Snapshot) -> None:
    Snapshot.objects.bulk_create([row], ignore_conflicts=True)
