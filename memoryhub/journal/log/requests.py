"""Requests served under an Idempotency-Key: one effect each, for 24 hours.

Only digests, ids and seqs are kept; a repeat's answer is read again: from the journal,
or, of what is about a person, from its rows as they are by then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from memoryhub.errors import IdempotencyMismatchError, InProgressError
from memoryhub.journal.log import log
from memoryhub.journal.log.orders import Order, Receipt, Request
from memoryhub.models.events import Event, RequestKey
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys

#: How long a key is remembered.
KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A request that had its effect: what it was, and the events it led to."""

    request: bytes
    subject: UUID
    #: None: it was about a person, and no order.
    thread: UUID | None
    first_seq: int
    last_seq: int
    fresh: Receipt | None = None

    @classmethod
    def of(cls, order: Order, receipt: Receipt) -> Self:
        seqs = [recorded.seq for recorded in receipt.events]
        assert receipt.state is not None
        return cls(
            request=PersonRequest.of(order).fingerprint,
            subject=receipt.state.subject,
            thread=receipt.thread,
            first_seq=seqs[0] if seqs else receipt.seq + 1,
            last_seq=receipt.seq,
            fresh=receipt,
        )

    def receipt(self) -> Receipt:
        """Return the first answer again: from this batch, or from the journal."""
        if self.fresh is not None:
            return replace(self.fresh, replayed=True)
        assert self.thread is not None
        thread = Thread.objects.only("name", "turn_count").get(id=self.thread)
        seqs = (self.first_seq, self.last_seq)
        slots = Slot.objects.filter(thread=thread, seq__range=seqs).order_by("seq")
        turn = slots.values_list("turn", flat=True).first()
        rows = Event.objects.filter(thread=thread, seq__range=seqs)
        events = tuple(
            log.recorded(row) for row in rows.defer("payload").order_by("seq")
        )
        return Receipt(
            thread=self.thread,
            subject=self.subject,
            name=thread.name,
            seq=self.last_seq,
            events=events,
            turn=thread.turn_count if turn is None else turn,
            created=self.first_seq == 1,
            replayed=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRequest:
    """Who asks for something, and under which Idempotency-Key."""

    project: UUID
    #: The subject that the asker's key is bound to.
    bound: UUID | None
    request: Request

    @classmethod
    def of(cls, order: Order) -> Self:
        assert order.request is not None
        address = order.address
        return cls(project=address.project, bound=address.bound, request=order.request)

    @property
    def digest(self) -> bytes:
        """Keyed digest of the client's key, so that a leaked table tells nothing."""
        # A key that is bound to a subject has Idempotency-Keys of its own, so that it
        # can't be answered with what another subject's memory was told.
        owner = b"" if self.bound is None else self.bound.bytes
        return self._keyed(owner + b"|" + self.request.key.encode())

    @property
    def fingerprint(self) -> bytes:
        """Keyed digest of what a repeat must have in common with the first."""
        return self._keyed(self.request.fingerprint)

    def _keyed(self, text: bytes) -> bytes:
        ids = keys.project_key(self.project).ids
        return hashlib.blake2b(text, key=ids, digest_size=16).digest()


def find(request: PersonRequest | None) -> RequestKey | None:
    """Return what a request about a person led to, if it was served before.

    One query. Raises IdempotencyMismatchError for another request under the same key.
    """
    if request is None:
        return None
    row = _kept(request).filter(created_at__gt=clock.now() - KEPT_FOR).first()
    if row is not None and bytes(row.request) != request.fingerprint:
        raise IdempotencyMismatchError
    return row


def claim(
    request: PersonRequest | None, *, subject: UUID, erasure: UUID | None = None
) -> None:
    """Note what a request about a person leads to, in the transaction in which it does.

    Raises InProgressError when another has been served under that key meanwhile.
    """
    if request is None:
        return
    now = clock.now()
    _kept(request).filter(created_at__lte=now - KEPT_FOR).delete()
    try:
        with transaction.atomic():
            RequestKey.objects.create(
                project_id=request.project,
                digest=request.digest,
                request=request.fingerprint,
                subject_id=subject,
                first_seq=0,
                last_seq=0,
                erasure_id=erasure,
                created_at=now,
            )
    except IntegrityError:
        raise InProgressError from None


def _kept(request: PersonRequest) -> QuerySet[RequestKey]:
    return RequestKey.objects.filter(project_id=request.project, digest=request.digest)


def look_up(
    orders: Iterable[Order], *, now: datetime
) -> dict[tuple[UUID, bytes], Served]:
    """Return what was served before, by (project, digest). One query, or none."""
    condition = Q()
    for order in orders:
        if order.request is not None:
            condition |= Q(
                project_id=order.address.project, digest=PersonRequest.of(order).digest
            )
    if not condition:
        return {}
    rows = RequestKey.objects.filter(condition, created_at__gt=now - KEPT_FOR)
    return {
        (row.project_id, bytes(row.digest)): Served(
            request=bytes(row.request),
            subject=row.subject_id,
            thread=row.thread_id,
            first_seq=row.first_seq,
            last_seq=row.last_seq,
        )
        for row in rows
    }


def keep(served: Mapping[tuple[UUID, bytes], Served], *, now: datetime) -> None:
    """Insert what was served for the first time; a key older than 24 h gives way."""
    fresh = {place: each for place, each in served.items() if each.fresh}
    if not fresh:
        return
    old = Q()
    for project, each in fresh:
        old |= Q(project_id=project, digest=each)
    RequestKey.objects.filter(old, created_at__lte=now - KEPT_FOR).delete()
    RequestKey.objects.bulk_create(
        RequestKey(
            project_id=project,
            digest=key,
            request=each.request,
            subject_id=each.subject,
            thread_id=each.thread,
            first_seq=each.first_seq,
            last_seq=each.last_seq,
            created_at=now,
        )
        for (project, key), each in fresh.items()
    )
