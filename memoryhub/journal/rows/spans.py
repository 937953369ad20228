"""Spans of seqs as conditions of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Q

#: Spans in one condition: SQLite nests them, and limits the depth.
CHUNK = 100
#: Single seqs in one condition.
SINGLE = 500

Span = tuple[int, int]


def iter_conditions(spans: Sequence[Span], *, column: str = "seq") -> Iterator[Q]:
    """Yield conditions that match seqs in these spans, a bounded number in each."""
    single = [first for first, last in spans if first == last]
    for start in range(0, len(single), SINGLE):
        yield Q(**{f"{column}__in": single[start : start + SINGLE]})
    wide = [span for span in spans if span[0] != span[1]]
    for start in range(0, len(wide), CHUNK):
        found = Q()
        for span in wide[start : start + CHUNK]:
            found |= Q(**{f"{column}__range": span})
        yield found


def iter_overlaps(spans: Sequence[Span], *, columns: tuple[str, str]) -> Iterator[Q]:
    """Yield conditions that match rows whose own span overlaps one of these spans."""
    first, last = columns
    for start in range(0, len(spans), CHUNK):
        found = Q()
        for begin, end in spans[start : start + CHUNK]:
            found |= Q(**{f"{first}__lte": end, f"{last}__gte": begin})
        yield found
