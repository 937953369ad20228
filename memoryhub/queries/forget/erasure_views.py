"""What screens say of erasures beside their lines. Never writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Self
from uuid import UUID

import orjson
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import exclusions
from memoryhub.queries.forget.erasures import CLOSED, ErasureLine
from memoryhub.queries.forget.exclusions import Left

#: A thread, and the seq of a record in it.
RecordPlace = tuple[UUID, int]
#: Nothing was erased in these.
_UNBEGUN = (Erasure.State.HELD, Erasure.State.EXPIRED, Erasure.State.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What stays behind an erasure, as its receipt says it."""

    #: What stays on purpose: `what` and `reason`.
    retained: Sequence[Mapping[str, str]]
    #: What is out of reach: `what`, `until`, `control` and `names`.
    residue: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, says: Mapping[str, Any]) -> Self:
        return cls(retained=says["retained"], residue=says["residue"])

    @property
    def left(self) -> list[Left]:
        """Return the residue in words."""
        return exclusions.list_left(self.residue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Which erasure took something, and its receipt once there is one."""

    erasure: UUID
    receipt: UUID | None

    @property
    def detail(self) -> dict[str, str]:
        """Name it as refusals do."""
        detail = {"erasure": str(self.erasure)}
        return detail | ({"receipt": str(self.receipt)} if self.receipt else {})


def list_proofs(threads: Collection[UUID]) -> dict[UUID, Proof]:
    """List by erased thread what erased it. One query.

    A thread that went by itself is told by that, even if its subject went later.
    """
    rows = Thread.objects.filter(id__in=threads)
    whole = Erasure.objects.filter(
        subject=OuterRef("subject"),
        scope=Erasure.Scope.SUBJECT,
        confirmed_at__isnull=False,
    )
    alone = Erasure.objects.filter(
        thread=OuterRef("id"),
        scope=Erasure.Scope.THREAD,
        confirmed_at__isnull=False,
    )
    begun = ~Q(state__in=(*_UNBEGUN,))
    found: Any = rows.annotate(
        erasure=Coalesce(
            Subquery(alone.filter(begun).order_by("-created_at").values("id")[:1]),
            Subquery(whole.filter(begun).order_by("-created_at").values("id")[:1]),
        )
    ).annotate(
        receipt=Subquery(
            Receipt.objects.filter(erasure=OuterRef("erasure"), n=0).values("id")[:1]
        )
    )
    return {
        row.id: Proof(erasure=row.erasure, receipt=row.receipt)
        for row in found.exclude(erasure=None)
    }


def get_receipt_id(erasure: UUID) -> UUID | None:
    """Get the erasure's receipt, None before there is one. One query."""
    return list_receipt_ids([erasure]).get(erasure)


def list_receipt_ids(erasures: Collection[UUID]) -> Mapping[UUID, UUID]:
    """List receipts by their erasure, of those that have one. One query."""
    rows = Receipt.objects.filter(erasure__in=erasures, n=0)
    return dict(rows.values_list("erasure_id", "id"))


def get_thread_name(line: ErasureLine) -> str:
    """Get the name of the thread in scope; nothing once that is gone. One query."""
    if line.thread is None:
        return ""
    rows = Thread.objects.filter(id=line.thread).exclude(name__startswith="~")
    return rows.values_list("name", flat=True).first() or ""


def get_open(subject: UUID) -> Erasure | None:
    """Get the subject's erasure that is not over: there is one at most. One query."""
    rows = Erasure.objects.filter(subject=subject).exclude(state__in=CLOSED)
    return rows.first()


def get_remains(erasure: UUID) -> Remains | None:
    """Get what an erasure's receipt says stays; None before there is one. One query."""
    rows = Receipt.objects.filter(erasure=erasure, n=0)
    text = rows.values_list("text", flat=True).first()
    if text is None:
        return None
    return Remains.of(orjson.loads(text))


def list_marks(places: Collection[RecordPlace]) -> dict[RecordPlace, Proof]:
    """List by place of an erased record what erased it. Three queries, or none.

    What expired, or was deleted by an agent, is not among them.
    """
    if not places:
        return {}
    gone = Event.objects.filter(_at(places), erased_by__isnull=False)
    ordered = {
        (thread, seq): (thread, by)
        for thread, seq, by in gone.values_list("thread_id", "seq", "erased_by")
        if by is not None
    }
    orders = Event.objects.filter(_at({*ordered.values()}), type="records.erased")
    rows = orders.values_list("thread_id", "seq", "body")
    erasures = {(t, seq): UUID(orjson.loads(body)["erasure"]) for t, seq, body in rows}
    receipts = list_receipt_ids({*erasures.values()}) if erasures else {}
    return {
        place: Proof(erasure=erasures[by], receipt=receipts.get(erasures[by]))
        for place, by in ordered.items()
        if by in erasures
    }


def _at(places: Collection[RecordPlace]) -> Q:
    """Match events at these places; none if there are none."""
    return reduce(or_, (Q(thread=t, seq=seq) for t, seq in places), Q(seq=-1))


def get_mark(thread: UUID, seq: int) -> Proof | None:
    """Get what erased the record; None if nobody wished it to go. Three queries."""
    return list_marks([(thread, seq)]).get((thread, seq))
