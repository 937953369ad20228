"""Whether what is kept of each subject in numbers is what there is. Never writes."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction

from memoryhub.journal.rows import totals
from memoryhub.models.subjects import Subject

#: Looks at a subject who is written to all the time, before it has to stand still.
ATTEMPTS = 3


def iter_drifted() -> Iterator[UUID]:
    """Yield subjects whose stored totals differ from a count.

    Looks at all there is.
    """
    # Who is on its way out is counted by the eraser, until nothing is left.
    out = (Subject.State.ERASING, Subject.State.ERASED)
    rows = Subject.objects.exclude(state__in=out).order_by("id")
    for subject in rows.values_list("id", flat=True).iterator(chunk_size=200):
        if drifted(subject):
            yield subject


def drifted(subject: UUID) -> bool:
    """Return whether a subject's stored totals differ from a count."""
    for _ in range(ATTEMPTS):
        kept = totals.get(subject)
        if totals.count(subject) == kept:
            return False
        # Every write moves a number: nobody wrote for it meanwhile.
        if totals.get(subject) == kept:
            return True
    with transaction.atomic():
        Subject.objects.select_for_update().get(id=subject)
        return totals.count(subject) != totals.get(subject)
