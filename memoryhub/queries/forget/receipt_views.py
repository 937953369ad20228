"""Receipts as screens show them, with addenda.

Never writes. Screens show only what the signed text says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count, Q

from memoryhub.errors import NotFoundError
from memoryhub.models.erasures import Receipt
from memoryhub.models.projects import Project
from memoryhub.queries.lists import newest_first
from memoryhub.queries.lists.cursors import ListBatch, ListScope


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLine:
    """A receipt in a list."""

    id: UUID
    erasure: UUID
    status: str
    scope: str
    reason: str
    ticket: str | None
    #: Rows erased, over all places.
    erased: int
    #: Number of addenda, each signed by itself.
    addenda: int
    issued_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Addendum:
    """A later fact about an erasure."""

    id: UUID
    what: str
    numbers: Mapping[str, int]
    #: Words of residue that a check found ended.
    ended: Sequence[str]
    issued_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSum:
    """Counts of one place in a receipt."""

    place: str
    planned: int
    fenced: int
    erased: int
    method: str
    rebuilt: int

    @property
    def has_moved(self) -> bool:
        """Tell whether rows came or went between the plan and the fence."""
        return self.planned != self.fenced


def get_receipt(project: Project, receipt: UUID) -> Receipt:
    """Get a receipt or an addendum of the project. One query. Raises NotFoundError."""
    row = Receipt.objects.filter(project=project, id=receipt).first()
    if row is None:
        raise NotFoundError
    return row


def list_addenda(erasure: UUID) -> tuple[Addendum, ...]:
    """List the addenda of an erasure's receipt, oldest first. One query."""
    rows = Receipt.objects.filter(erasure=erasure, n__gt=0).order_by("n")
    statements = [(row, orjson.loads(row.text)) for row in rows]
    return tuple(
        Addendum(
            id=row.id,
            what=says["what"],
            numbers=says["numbers"],
            ended=says["ended"],
            issued_at=row.issued_at,
        )
        for row, says in statements
    )


def list_sums(says: Mapping[str, Any]) -> tuple[PlaceSum, ...]:
    """List the places of a receipt. No query."""
    erased = says["erased"]
    names = {**says["planned"], **says["fenced"], **erased, **says["rebuilt"]}
    return tuple(
        PlaceSum(
            place=name,
            planned=says["planned"].get(name, 0),
            fenced=says["fenced"].get(name, 0),
            erased=erased.get(name, {}).get("count", 0),
            method=erased.get(name, {}).get("method", ""),
            rebuilt=says["rebuilt"].get(name, 0),
        )
        for name in sorted(names)
    )


def list_receipts(
    project: Project, *, after: str | None = None, limit: int = 50
) -> ListBatch[ReceiptLine]:
    """List receipts, newest first. One query.

    Raises BadCursorError when the cursor `after` belongs to another list.
    """
    listing = ListScope(name="receipts", project=project.id)
    rows = Receipt.objects.filter(project=project, n=0)
    later = Count("erasure__receipts", filter=Q(erasure__receipts__n__gt=0))
    counted = rows.annotate(addenda=later)
    return newest_first.list_batch(
        counted, listing, line=_build_line, after=after, limit=limit, at="issued_at"
    )


def _build_line(row: Any) -> ReceiptLine:
    says = orjson.loads(row.text)
    return ReceiptLine(
        id=row.id,
        erasure=row.erasure_id,
        status=says["status"],
        scope=says["scope"],
        reason=says["reason"],
        ticket=says["ticket"],
        erased=sum(part["count"] for part in says["erased"].values()),
        addenda=row.addenda,
        issued_at=row.issued_at,
    )
