"""Moves of payloads between event rows and cold storage.

A move changes no event: bodies, digests and chains stay, and readers get the payload by
its reference. Each move is one object and one transaction, so a process that is killed
leaves rows with all payloads or rows with references to a whole object. See decision
88.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Length

from memoryhub.errors import ColdStorageError, SealBrokenError
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.totals import Figures, TotalsChanges
from memoryhub.journal.writing.writer import run
from memoryhub.models.cold import ColdObject
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import cold_payloads
from memoryhub.vault.keys.cold_payloads import REFERENCE_BYTES, ColdReference

#: Rows read in one statement.
CHUNK: Final = 500
#: Age from which an object that is being written was left by a process that died.
WRITER_LIVES: Final = timedelta(minutes=2)
State = ColdObject.State
#: Erasures that take nothing any more, or nothing yet.
_IDLE: Final = (
    *(Erasure.State.PLANNED, Erasure.State.COMPLETE),
    *(Erasure.State.EXPIRED, Erasure.State.CANCELLED),
)


class StoredPayload(NamedTuple):
    """A payload as its row holds it: seq, event type, bytes and digest of the payload.

    `sealed` are the payload's bytes, or a reference to these.
    """

    seq: int
    type: str
    sealed: bytes
    digest: bytes

    def has_digest_of(self, sealed: bytes) -> bool:
        return hashlib.sha256(sealed).digest() == self.digest


# From rows to the storage


def move_thread(thread: Thread) -> int:
    """Move the payloads of a closed thread to cold storage; return how many went.

    Stops early when the thread was written to or when an erasure of its subject runs.
    Raises ColdStorageError; the rows then hold all payloads of the object that failed.
    Cost: two transactions for each 16 MiB.
    """
    moved = 0
    for batch in _iter_batches(thread.id):
        if not (count := _move_batch(thread, batch)):
            break
        moved += count
    return moved


def _iter_batches(thread: UUID) -> Iterator[list[StoredPayload]]:
    """Yield the payloads that are in rows, oldest first, one object's at a time."""
    batch, size, after = list[StoredPayload](), 0, 0
    rows = Event.objects.filter(thread=thread, payload__isnull=False).order_by("seq")
    while chunk := _list_stored(rows.filter(seq__gt=after)[:CHUNK]):
        after = chunk[-1].seq
        for each in chunk:
            # A damaged payload stays where `verify` finds it; so does a reference.
            if not each.has_digest_of(each.sealed):
                continue
            if batch and size + len(each.sealed) > cold_payloads.MAX_OBJECT_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(each)
            size += len(each.sealed)
    if batch:
        yield batch


def _list_stored(rows: QuerySet[Event]) -> list[StoredPayload]:
    found = rows.values_list("seq", "type", "payload", "payload_digest")
    return [
        StoredPayload(seq, kind, bytes(sealed), bytes(digest))
        for seq, kind, sealed, digest in found
        if sealed is not None and digest is not None
    ]


def _move_batch(thread: Thread, batch: Sequence[StoredPayload]) -> int:
    """Store an object, then put references into the rows; return how many.

    The row of the object comes first: whatever is stored has a row that names it.
    Before the very first row the storage is marked, so rows imply a mark.
    """
    cold_payloads.require_storage(new=not ColdObject.objects.exists())
    content = b"".join(each.sealed for each in batch)
    row = ColdObject(
        thread_id=thread.id,
        payloads=len(batch),
        bytes=len(content),
        changed_at=clock.now(),
    )
    run(partial(row.save, force_insert=True))
    cold_payloads.store_object(row.id, content)
    moved: int = run(partial(_put_references, row, thread.head_seq, batch))
    if not moved:
        _drop_object(row.id)
    return moved


def _put_references(
    row: ColdObject, head_seq: int, batch: Sequence[StoredPayload]
) -> int:
    offset, puts = 0, list[tuple[StoredPayload, bytes]]()
    for each in batch:
        place = ColdReference(row.id, offset, len(each.sealed))
        puts.append((each, cold_payloads.build_reference(place)))
        offset += len(each.sealed)
    with transaction.atomic():
        thread = Thread.objects.select_for_update().get(id=row.thread_id)
        busy = Erasure.objects.filter(subject=thread.subject_id)
        if (
            (thread.status, thread.head_seq) != (Thread.Status.CLOSED, head_seq)
            or busy.exclude(state__in=_IDLE).exists()
            or not ColdObject.objects.filter(id=row.id, state=State.WRITING).exists()
        ):
            return 0
        if _put_all(thread, puts) != len(puts):
            transaction.set_rollback(True)
            return 0
        _enter_state(row, State.COLD)
    return len(puts)


# From the storage back to rows


def return_objects(objects: Collection[UUID]) -> int:
    """Put the payloads of cold objects back into their rows; return how many.

    The objects stay for backups that refer to them. Raises ColdStorageError.
    """
    rows = ColdObject.objects.filter(id__in=objects, state=State.COLD)
    return sum(_return_object(row, State.RETURNED) for row in rows)


def _return_object(row: ColdObject, after: str) -> int:
    content = cold_payloads.fetch_object(row.id)
    count: int = run(partial(_put_payloads, row, content, after))
    return count


def _put_payloads(row: ColdObject, content: bytes, after: str) -> int:
    with transaction.atomic():
        thread = Thread.objects.select_for_update().get(id=row.thread_id)
        states = (State.COLD, State.DOOMED)
        if not ColdObject.objects.filter(id=row.id, state__in=states).exists():
            return 0
        found = [
            (stored, content[place.offset : place.offset + place.size])
            for stored, place in _list_references(row)
        ]
        puts = [
            (stored, sealed) for stored, sealed in found if stored.has_digest_of(sealed)
        ]
        # A damaged object stays, unless it must go.
        if len(puts) != len(found) and after != State.DOOMED:
            raise SealBrokenError
        _put_all(thread, puts)
        _enter_state(row, after)
    return len(puts)


def _list_references(row: ColdObject) -> list[tuple[StoredPayload, ColdReference]]:
    """List the thread's rows that refer to the object."""
    rows = Event.objects.filter(thread=row.thread_id, payload__isnull=False)
    rows = rows.annotate(size=Length("payload")).filter(size=REFERENCE_BYTES)
    stored = _list_stored(rows)
    found = [(each, cold_payloads.parse_reference(each.sealed)) for each in stored]
    return [(each, place) for each, place in found if place.object_id == row.id]


def _put_all(thread: Thread, puts: Sequence[tuple[StoredPayload, bytes]]) -> int:
    """Replace the bytes of rows, and count them in the totals; return how many."""
    values = []
    changed = Counter[str]()
    for each, after in puts:
        values.append((after, thread.id, each.seq, each.digest))
        changed[each.type] += len(after) - len(each.sealed)
    count = statements.SWAPPED.update(values)
    changes = TotalsChanges()
    for kind, size in changed.items():
        changes.add(thread.id, kind, Figures(bytes=size))
    changes.write({thread.id: thread.subject_id})
    return count


def require_readable(subject: UUID) -> None:
    """Raise ColdStorageError if the subject has cold threads that can't be read now.

    One query, and a look at the storage.
    """
    if ColdObject.objects.filter(thread__subject=subject, state=State.COLD).exists():
        cold_payloads.require_storage()


# Ends of objects


def tidy(now: datetime) -> int:
    """Finish what was interrupted, and delete objects that nothing refers to any more.

    Call under the lease of whoever moves threads: an object in `writing` then is left
    over from a process that was killed. Objects that came back are deleted once no
    backup refers to them, objects with erased payloads at once. Returns how many
    objects were deleted. Raises ColdStorageError.
    """
    old = now - timedelta(days=settings.BACKUP_DAYS)
    ended = Q(state__in=(State.WRITING, State.DOOMED))
    ended |= Q(state=State.RETURNED, changed_at__lt=old)
    return _remove_objects(ColdObject.objects.filter(ended)[:CHUNK])


def erase_objects(*, whole: QuerySet[Thread], affected: QuerySet[Thread]) -> None:
    """Delete the objects of threads that are erased whole, or that lost payloads.

    Payloads that an affected thread keeps come back first. Raises ColdStorageError, and
    while an object is being written, which its writer drops as the erasure runs.
    """
    writing = ColdObject.objects.filter(Q(thread__in=whole) | Q(thread__in=affected))
    alive = clock.now() - WRITER_LIVES
    if writing.filter(state=State.WRITING, changed_at__gt=alive).exists():
        raise ColdStorageError
    for row in ColdObject.objects.filter(thread__in=whole):
        _drop_object(row.id)
    doomed = ColdObject.objects.filter(thread__in=affected, state=State.DOOMED)
    _remove_objects(doomed)


def _remove_objects(rows: Iterable[ColdObject]) -> int:
    count = 0
    for row in rows:
        if row.state == State.WRITING and not run(partial(_doom_writing, row)):
            # Whoever wrote the object was slow, and has put the references.
            continue
        if row.state == State.DOOMED:
            # A lost object gives back nothing, and is gone already.
            with suppress(SealBrokenError):
                _return_object(row, State.DOOMED)
        _drop_object(row.id)
        count += 1
    return count


def _doom_writing(row: ColdObject) -> int:
    """Keep a slow writer from putting references to the object; return 0 if too late.

    The storage deletes outside of transactions, so the row's state decides.
    """
    rows = ColdObject.objects.filter(id=row.id, state=State.WRITING)
    return rows.update(state=State.DOOMED, changed_at=clock.now())


def _drop_object(object_id: UUID) -> None:
    """Delete the object, then its row: a row stands as long as the object may."""
    cold_payloads.delete_object(object_id)
    run(ColdObject.objects.filter(id=object_id).delete)


def _enter_state(row: ColdObject, state: str) -> None:
    rows = ColdObject.objects.filter(id=row.id)
    rows.update(state=state, changed_at=clock.now())
