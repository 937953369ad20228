"""What an erasure does to journals and rows: it orders, then it takes.

All through the writer, in short transactions of at most 200 threads or 1,000 records,
so that others write between two of them. What is ordered stands in the journals first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import F, Q, QuerySet

from memoryhub import journal
from memoryhub.errors import CorruptError, SubjectErasedError
from memoryhub.journal import importing
from memoryhub.journal.forget import erasing, purging
from memoryhub.journal.log import log
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.tombstones import Value
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_counts, erasure_targets
from memoryhub.queries.forget.erasure_counts import Range
from memoryhub.vault.keys import keys

Scope = Erasure.Scope
RETENTION: Final = erasure_targets.RETENTION
_ERASED: Final = Thread.Status.ERASED


@contextmanager
def locked(erasure: UUID) -> Iterator[tuple[Erasure, Subject]]:
    """Lock an erasure and its subject, for which nobody writes until this commits.

    The subject first, as everywhere: two that lock in other orders wait for each other.
    """
    with transaction.atomic():
        subject = Erasure.objects.values_list("subject_id", flat=True).get(id=erasure)
        owner = Subject.objects.select_for_update().get(id=subject)
        yield Erasure.objects.select_for_update().get(id=erasure), owner


def begin(row: Erasure) -> bool:
    """Order it in the caller's transaction, in which all was counted.

    A thread that goes whole ends there, so that nobody adds to it. Returns whether the
    records are too many for that, and are left to `order`.
    """
    gone = (_ERASED, Thread.Status.IMPORTING)
    if row.scope == Scope.THREAD and (
        threads := [*_whole(row).exclude(status__in=gone)]
    ):
        _end(row, threads)
    pieces = [*erasing.chunks(_ranges(row))]
    if len(pieces) > 1:
        return True
    for piece in pieces:
        _order_records(row, piece)
    return False


def order(row: Erasure) -> None:
    """Have it stand in every journal that it concerns. A repeat goes on."""
    if row.scope in (Scope.SUBJECT, Scope.THREAD):
        _order_threads(row)
    if row.scope != Scope.SUBJECT:
        for batch in erasing.chunks(_ranges(row)):
            journal.run(partial(_order_records, row, batch))


def purge(row: Erasure) -> None:
    """Take what the orders name: payloads, rows, names. A repeat goes on."""
    tried: set[UUID] = set()
    while batch := [*_unblanked(row).exclude(id__in=tried).order_by("id")[:100]]:
        for thread in batch:
            by = thread.head_seq
            _until_done(partial(purging.thread_batches, thread.id, by=by))
            # One that a live fork still folds through keeps its name.
            tried.add(thread.id)
    for thread in _written_to(row).exclude(id__in=tried):
        _until_done(partial(purging.thread_batches, thread.id, by=thread.head_seq))
    if row.scope == Scope.SUBJECT:
        _until_done(partial(purging.subject_batches, row.subject_id))
        return
    for thread in erasing.concerned(_ranges(row)):
        _reseal(thread.id)


def _order_threads(row: Erasure) -> None:
    # Nobody has seen what is still on its way in, so nothing is left of it.
    arriving = _whole(row).filter(status=Thread.Status.IMPORTING)
    importing.remove(arriving.values_list("id", flat=True))
    left = _whole(row).exclude(status=_ERASED).order_by("id")
    while batch := [*left[: erasing.AT_ONCE]]:
        journal.run(partial(_end, row, batch))


def _end(row: Erasure, threads: Sequence[Thread]) -> None:
    with transaction.atomic():
        _hold(row)
        # Their names are dead from here on, and known now for the last time.
        tombstones.lay_threads(row, [each.name for each in threads])
        erasing.erase_threads(threads, erasure=row.id, reason=_reason(row))


def _order_records(row: Erasure, ranges: Sequence[Range]) -> None:
    with transaction.atomic():
        owner = _hold(row)
        # What was read of it before is stale: imports and exports under way end.
        Subject.objects.filter(id=owner.id).update(epoch=F("epoch") + 1)
        # What was made of them since they were counted goes with them; nothing can be
        # made of what is erased.
        whole = erasure_closures.closure(ranges, taught=row.reason != RETENTION)
        if row.reason != RETENTION:
            tombstones.lay_values(row, _values(owner, whole))
        for piece in erasing.chunks(whole):
            erasing.erase_records(piece, erasure=row.id, reason=_reason(row))


def _values(owner: Subject, ranges: Sequence[Range]) -> Iterator[Value]:
    """Read what may not be written again of these records, as the last who can."""
    try:
        opened = keys.subject_keys(owner.id, epoch=owner.epoch)
    except SubjectErasedError:
        # It is back without its key, from a backup: nobody can read or write it.
        return
    wanted = Q(pk__in=[])
    for thread, first, last in ranges:
        wanted |= Q(thread=thread, seq__range=(first, last))
    sealed = Event.objects.filter(wanted, payload__isnull=False)
    for event in sealed.filter(type__in=tombstones.TYPES).order_by("thread", "seq"):
        # What does not open is erased all the same; there is nothing to know it by.
        with suppress(CorruptError):
            payload = log.open_payload(owner, owner.project_id, event)
            yield from tombstones.values_of(opened, log.recorded(event).event, payload)


def _reseal(thread: UUID) -> None:
    # Without its key, as a restore may leave it, snapshots are gone for good.
    with suppress(SubjectErasedError):
        erasing.reseal(Thread.objects.select_related("subject").get(id=thread))


def _until_done(batches: Callable[[], Iterator[purging.Counts]]) -> None:
    while journal.run(partial(purging.take_some, batches)):
        pass


def _hold(row: Erasure) -> Subject:
    """Lock the subject: what is read of its memory now is what goes."""
    return Subject.objects.select_for_update().get(id=row.subject_id)


def _whole(row: Erasure) -> QuerySet[Thread]:
    """Return the threads that go whole."""
    if row.scope == Scope.SUBJECT:
        return Thread.objects.filter(subject=row.subject_id)
    if row.scope == Scope.THREAD and row.thread_id:
        return Thread.objects.filter(id=row.thread_id)
    return Thread.objects.none()


def _unblanked(row: Erasure) -> QuerySet[Thread]:
    return _whole(row).filter(status=_ERASED).exclude(name__startswith="~")


def _written_to(row: Erasure) -> QuerySet[Thread]:
    """Find threads that hold something again: it was written beside the fence."""
    owner: dict[str, Any] = {"subject": row.subject_id}
    if row.scope != Scope.SUBJECT:
        owner = {"thread": row.thread_id}
    found: set[UUID] = set()
    for place in erasure_counts.iter_places():
        if place.privacy.thread is not None and None not in owner.values():
            rows = place.of(**owner).order_by()
            found |= {*rows.values_list(place.privacy.thread, flat=True).distinct()}
    return _whole(row).filter(status=_ERASED, id__in=found).order_by("id")


def _ranges(row: Erasure) -> list[Range]:
    """List what goes of threads that stay, and what forks have of one that goes."""
    targets: Any = orjson.loads(row.targets)
    heads = [(UUID(thread), 1, seq) for thread, seq in targets["heads"]]
    return [*heads, *erasure_targets.ranges_of(targets)]


def _reason(row: Erasure) -> Any:
    """Return the plan's word; it was checked then."""
    return row.reason
