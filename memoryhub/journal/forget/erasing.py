"""Erasure events, which only the eraser may append. Called in the writer's thread.

The erasure events are appended first; then the records that the events name are
deleted, a batch at a time, each step idempotent. An erased thread is never folded
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from django.db import transaction

from memoryhub.journal.log import announce, log, outlines, snapshots
from memoryhub.journal.log.heads import Heads
from memoryhub.journal.log.orders import Address, Order, OrderReceipt
from memoryhub.journal.writing.batch import WriteBatch
from memoryhub.journal.writing.writer import run, writer
from memoryhub.kernel.commands import EraseRecords, EraseThread
from memoryhub.kernel.state.erase_events import Range, Reason
from memoryhub.models.events import Snapshot
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys

#: Threads that one transaction ends, at most.
AT_ONCE = 200
#: Records that one event erases, at most: their payloads go in the same transaction.
RECORDS = 1_000


def render_actor(erasure: UUID) -> str:
    """Return the actor of an erasure's orders: `eraser:<erasure>`."""
    return f"eraser:{erasure}"


def erase_threads(
    threads: Sequence[Thread], *, erasure: UUID, reason: Reason
) -> dict[UUID, int]:
    """Append thread.erased to each of at most 200 threads; return its seq by thread.

    Inside the caller's transaction, which holds the subject. Needs no key and folds
    nothing. Skips threads that are erased already.
    """
    command = EraseThread(erasure=erasure, reason=reason)
    return _append_orders(outlines.OutlineHeads(), threads, command, erasure)


def erase_records(
    ranges: Sequence[Range], *, erasure: UUID, reason: Reason
) -> dict[UUID, int]:
    """Append records.erased to all threads that hold or inherit the records.

    Returns the seq of the event by thread. Inside the caller's transaction, which holds
    the subject. Payloads go in the same transaction, so pass chunks that `split_ranges`
    made. Skips erased threads and threads where no record is left: a repeat appends
    nothing.
    """
    seqs: dict[UUID, int] = {}
    command = EraseRecords(erasure=erasure, reason=reason, ranges=tuple(ranges))
    threads = [*list_holders(ranges)]
    for start in range(0, len(threads), AT_ONCE):
        batch = threads[start : start + AT_ONCE]
        # The process's own heads, so that a chunk folds nothing that the last chunk
        # folded. The chain shows a head whose transaction was rolled back.
        seqs |= _append_orders(writer.journal.heads, batch, command, erasure)
    return seqs


def _append_orders(
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
            actor=render_actor(erasure),
        )
        for each in threads
    ]
    seqs: dict[UUID, int] = {}
    notices = []
    outcomes = WriteBatch(heads=heads, clock=clock.now).run(orders, locked=True)
    for order, outcome in zip(orders, outcomes, strict=True):
        if not isinstance(outcome, OrderReceipt):
            raise outcome
        if outcome.events:
            seqs[outcome.thread] = outcome.seq
            notices.append((order.address.project, outcome.thread, outcome.seq))
    transaction.on_commit(lambda: announce.notify(notices))
    return seqs


def list_holders(ranges: Iterable[Range]) -> dict[Thread, int]:
    """List threads that hold these records, and the forks that inherit some of them.

    In the order of their ids, each with the first seq from which the thread holds such
    a record; for a fork 0, since all its own events follow the inherited records.
    Leaves out erased threads. One query for each generation of forks.
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
    # An import under way is not anybody's memory yet.
    out = (Thread.Status.ERASED, Thread.Status.IMPORTING)
    return {
        row: since[row.id]
        for row in sorted(found.values(), key=lambda row: row.id)
        if row.status not in out
    }


def split_ranges(
    ranges: Iterable[Range], *, size: int = RECORDS
) -> Iterator[list[Range]]:
    """Split the ranges into pieces of at most `size` records and as many ranges."""
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
    """Rebuild the snapshots of a thread that erasing deleted; return their number.

    `thread` comes with its subject. Folds the whole journal of the thread; so this
    function alone is called outside the writer's thread, and only writes in it.
    """
    if thread.status == Thread.Status.ERASED:
        return 0
    key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    there = Snapshot.objects.filter(thread=thread).values_list("seq", flat=True)
    stored, kept_seq, made = {*there}, 0, 0
    for state in log.iter_states(thread):
        if state.seq in stored or not snapshots.is_due(state, kept_seq=kept_seq):
            kept_seq = state.seq if state.seq in stored else kept_seq
            continue
        run(partial(_insert_snapshot, snapshots.build_snapshot_row(state, key=key)))
        kept_seq, made = state.seq, made + 1
    return made


def _insert_snapshot(row: Snapshot) -> None:
    Snapshot.objects.bulk_create([row], ignore_conflicts=True)
