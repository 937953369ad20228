"""Lists of rows by time, newest first, in batches with cursors. Never writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

from memoryhub.queries.lists.cursors import ListBatch, ListScope

Row = TypeVar("Row", bound=Model)
Line = TypeVar("Line")


def list_batch(
    rows: QuerySet[Row],
    listing: ListScope,
    *,
    line: Callable[[Row], Line],
    after: str | None,
    limit: int,
    at: str = "created_at",
) -> ListBatch[Line]:
    """List the rows after the cursor `after`, each as a `line`. One query.

    `at` is the column of the time.

    Raises BadCursorError when the cursor belongs to another list.
    """
    if after is not None:
        moment, last = listing.open(after)
        later = Q(**{at: moment}, id__gt=last)
        rows = rows.filter(Q(**{f"{at}__lt": moment}) | later)
    found = list(rows.order_by(f"-{at}", "id")[: limit + 1])
    batch, rest = found[:limit], found[limit:]
    end: Any = batch[-1] if rest else None
    return ListBatch(
        items=tuple(map(line, batch)),
        next=listing.seal([getattr(end, at), end.id]) if rest else None,
    )
