"""Newest first: a part of a list by the time its rows were made. Never writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

from memoryhub.queries.lists.cursors import Batch, Listing

Row = TypeVar("Row", bound=Model)
Line = TypeVar("Line")


def part(
    rows: QuerySet[Row],
    listing: Listing,
    *,
    line: Callable[[Row], Line],
    after: str | None,
    limit: int,
) -> Batch[Line]:
    """The rows behind the cursor `after`, each as a `line`. One query.

    Raises BadCursorError when the cursor is not of this very list.
    """
    if after is not None:
        at, last = listing.open(after)
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, id__gt=last))
    found = list(rows.order_by("-created_at", "id")[: limit + 1])
    batch, rest = found[:limit], found[limit:]
    end: Any = batch[-1] if rest else None
    return Batch(
        items=tuple(map(line, batch)),
        next=listing.seal([end.created_at, end.id]) if rest else None,
    )
