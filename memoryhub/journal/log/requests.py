"""Requests served under an Idempotency-Key: one effect each, for 24 hours.

The table keeps only digests, ids and seqs. The answer to a repeat is read again: from
the journal, or, for a request about a person, from the person's current rows. See
decision 4.
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
from memoryhub.journal.log.orders import KeyedRequest, Order, OrderReceipt
from memoryhub.models.events import Event, RequestKey
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys

#: How long a key is remembered.
KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest:
    """A request that had its effect: its fingerprint, and the events that it led to."""

    request: bytes
    subject: UUID
    #: None: a request about a person, without an order.
    thread: UUID | None
    first_seq: int
    last_seq: int
    fresh: OrderReceipt | None = None

    @classmethod
    def from_order(cls, order: Order, receipt: OrderReceipt) -> Self:
        seqs = [recorded.seq for recorded in receipt.events]
        assert receipt.state is not None
        return cls(
            request=PersonRequest.from_order(order).fingerprint,
            subject=receipt.state.subject,
            thread=receipt.thread,
            first_seq=seqs[0] if seqs else receipt.seq + 1,
            last_seq=receipt.seq,
            fresh=receipt,
        )

    def get_receipt(self) -> OrderReceipt:
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
            log.to_recorded(row) for row in rows.defer("payload").order_by("seq")
        )
        return OrderReceipt(
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
    """A request's Idempotency-Key with the project and subject of the asker."""

    project: UUID
    #: The subject that the asker's key is bound to.
    bound: UUID | None
    request: KeyedRequest

    @classmethod
    def from_order(cls, order: Order) -> Self:
        assert order.request is not None
        address = order.address
        return cls(project=address.project, bound=address.bound, request=order.request)

    @property
    def digest(self) -> bytes:
        """Keyed digest of the client's key, so that a leaked table reveals nothing."""
        # A key bound to a subject has its own Idempotency-Keys, so that no repeat is
        # answered with another subject's memory.
        owner = b"" if self.bound is None else self.bound.bytes
        return self._compute_digest(owner + b"|" + self.request.key.encode())

    @property
    def fingerprint(self) -> bytes:
        """Keyed digest of the bytes that a repeat must share with the first request."""
        return self._compute_digest(self.request.fingerprint)

    def _compute_digest(self, text: bytes) -> bytes:
        ids = keys.get_project_key(self.project).ids
        return hashlib.blake2b(text, key=ids, digest_size=16).digest()


def find(request: PersonRequest | None) -> RequestKey | None:
    """Return the record of a request about a person, if it was served before.

    One query. Raises IdempotencyMismatchError for another request under the same key.
    """
    if request is None:
        return None
    row = _filter_keys(request).filter(created_at__gt=clock.now() - KEPT_FOR).first()
    if row is not None and bytes(row.request) != request.fingerprint:
        raise IdempotencyMismatchError
    return row


def claim(
    request: PersonRequest | None, *, subject: UUID, erasure: UUID | None = None
) -> None:
    """Record the effect of a request about a person, in the transaction of the effect.

    Raises InProgressError when another has been served under that key meanwhile.
    """
    if request is None:
        return
    now = clock.now()
    _filter_keys(request).filter(created_at__lte=now - KEPT_FOR).delete()
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


def _filter_keys(request: PersonRequest) -> QuerySet[RequestKey]:
    return RequestKey.objects.filter(project_id=request.project, digest=request.digest)


def look_up(
    orders: Iterable[Order], *, now: datetime
) -> dict[tuple[UUID, bytes], ServedRequest]:
    """Return requests served before, by (project, digest). One query, or none.

    Keys older than 24 h are deleted: the orders take them anew.
    """
    condition = Q()
    for order in orders:
        if order.request is not None:
            condition |= Q(
                project_id=order.address.project,
                digest=PersonRequest.from_order(order).digest,
            )
    if not condition:
        return {}
    rows, since = [*RequestKey.objects.filter(condition)], now - KEPT_FOR
    if old := [row.pk for row in rows if row.created_at <= since]:
        RequestKey.objects.filter(pk__in=old).delete()
    return {
        (row.project_id, bytes(row.digest)): ServedRequest(
            request=bytes(row.request),
            subject=row.subject_id,
            thread=row.thread_id,
            first_seq=row.first_seq,
            last_seq=row.last_seq,
        )
        for row in rows
        if row.created_at > since
    }


def keep(served: Mapping[tuple[UUID, bytes], ServedRequest], *, now: datetime) -> None:
    """Insert requests served for the first time. One statement, or none."""
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
        for (project, key), each in served.items()
        if each.fresh
    )
