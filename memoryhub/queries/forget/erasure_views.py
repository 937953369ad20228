"""Views of erasures for screens: remains, and proof of each erasure. Never writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
from memoryhub.queries.forget.exclusions import ResidueLine

#: A thread, and the seq of a record in it.
RecordPlace = tuple[UUID, int]
#: States in which an erasure has erased nothing.
_UNBEGUN = (Erasure.State.HELD, Erasure.State.EXPIRED, Erasure.State.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRemains:
    """Data that an erasure leaves, as its receipt says."""

    #: Kept on purpose: `what` and `reason`.
    retained: Sequence[Mapping[str, str]]
    #: Out of reach: `what`, `until`, `control` and `names`.
    residue: Sequence[Mapping[str, Any]]

    @classmethod
    def from_receipt(cls, says: Mapping[str, Any]) -> Self:
        return cls(retained=says["retained"], residue=says["residue"])

    @property
    def left(self) -> list[ResidueLine]:
        """Return the residue in words."""
        return exclusions.list_residue_lines(self.residue)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureProof:
    """The erasure that took a thread or record, and its receipt once issued."""

    erasure: UUID
    receipt: UUID | None

    @property
    def detail(self) -> dict[str, str]:
        """Return the ids as the detail of a refusal."""
        detail = {"erasure": str(self.erasure)}
        return detail | ({"receipt": str(self.receipt)} if self.receipt else {})


def has_erased_since(project: UUID, at: datetime) -> bool:
    """Tell whether an erasure of the project went on at an instant or later. One query.

    A plan that nobody confirmed is no erasure.
    """
    rows = Erasure.objects.filter(project=project, updated_at__gte=at)
    return rows.exclude(state__in=(Erasure.State.PLANNED, *_UNBEGUN)).exists()


def list_proofs(threads: Collection[UUID]) -> dict[UUID, ErasureProof]:
    """List by erased thread the erasure that took it. One query.

    Prefers an erasure of the thread alone to a later erasure of its subject.
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
        row.id: ErasureProof(erasure=row.erasure, receipt=row.receipt)
        for row in found.exclude(erasure=None)
    }


def get_receipt_id(erasure: UUID) -> UUID | None:
    """Get the erasure's receipt, None before there is one. One query."""
    return list_receipt_ids([erasure]).get(erasure)


def list_receipt_ids(erasures: Collection[UUID]) -> Mapping[UUID, UUID]:
    """List ids of receipts by erasure; leaves out erasures without one. One query."""
    rows = Receipt.objects.filter(erasure__in=erasures, n=0)
    return dict(rows.values_list("erasure_id", "id"))


def get_thread_name(line: ErasureLine) -> str:
    """Get the name of the thread in scope; empty once it is erased. One query."""
    if line.thread is None:
        return ""
    rows = Thread.objects.filter(id=line.thread).exclude(name__startswith="~")
    return rows.values_list("name", flat=True).first() or ""


def has_home_thread(line: ErasureLine) -> bool:
    """Tell whether the home thread of the person is among the targets. Two queries."""
    row = Erasure.objects.filter(id=line.id).values_list("targets", flat=True).first()
    held = orjson.loads(row) if row else {}
    names = {of for each in ("heads", "ranges") for of, *_ in held.get(each, ())}
    homes = Thread.objects.filter(subject=line.subject, home=True, id__in=names)
    return homes.exists()


def get_open(subject: UUID) -> Erasure | None:
    """Get the subject's open erasure; a subject has at most one. One query."""
    rows = Erasure.objects.filter(subject=subject).exclude(state__in=CLOSED)
    return rows.first()


def get_remains(erasure: UUID) -> ErasureRemains | None:
    """Get the remains that an erasure's receipt names; None before it. One query."""
    rows = Receipt.objects.filter(erasure=erasure, n=0)
    text = rows.values_list("text", flat=True).first()
    if text is None:
        return None
    return ErasureRemains.from_receipt(orjson.loads(text))


def list_record_proofs(
    places: Collection[RecordPlace],
) -> dict[RecordPlace, ErasureProof]:
    """List the erasure of each erased record, by its place. Three queries, or none.

    Leaves out records that expired or that an agent deleted.
    """
    if not places:
        return {}
    gone = Event.objects.filter(_match_places(places), erased_by__isnull=False)
    ordered = {
        (thread, seq): (thread, by)
        for thread, seq, by in gone.values_list("thread_id", "seq", "erased_by")
        if by is not None
    }
    orders = Event.objects.filter(
        _match_places({*ordered.values()}), type="records.erased"
    )
    rows = orders.values_list("thread_id", "seq", "body")
    erasures = {(t, seq): UUID(orjson.loads(body)["erasure"]) for t, seq, body in rows}
    receipts = list_receipt_ids({*erasures.values()}) if erasures else {}
    return {
        place: ErasureProof(erasure=erasures[by], receipt=receipts.get(erasures[by]))
        for place, by in ordered.items()
        if by in erasures
    }


def _match_places(places: Collection[RecordPlace]) -> Q:
    """Match events at these places; no event without places."""
    return reduce(or_, (Q(thread=t, seq=seq) for t, seq in places), Q(seq=-1))


def find_record_proof(thread: UUID, seq: int) -> ErasureProof | None:
    """Find the erasure of a record; None if no erasure took it. Three queries."""
    return list_record_proofs([(thread, seq)]).get((thread, seq))
