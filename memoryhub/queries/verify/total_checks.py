"""Checks of each subject's stored totals against a count. Never writes."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction

from memoryhub.journal.rows import totals
from memoryhub.models.subjects import Subject

#: Attempts to count a subject with constant writes, before locking the subject.
ATTEMPTS = 3


def iter_drifted() -> Iterator[UUID]:
    """Yield subjects whose stored totals differ from a count.

    Counts the rows of all subjects.
    """
    # The eraser counts the rows of subjects that are being erased.
    out = (Subject.State.ERASING, Subject.State.ERASED)
    rows = Subject.objects.exclude(state__in=out).order_by("id")
    for subject in rows.values_list("id", flat=True).iterator(chunk_size=200):
        # An erasure may have begun since the subject was listed.
        if has_drifted(subject) and rows.filter(id=subject).exists():
            yield subject


def has_drifted(subject: UUID) -> bool:
    """Tell whether a subject's stored totals differ from a count."""
    for _ in range(ATTEMPTS):
        kept = totals.get(subject)
        if totals.count(subject) == kept:
            return False
        # Every write changes the totals: equal totals mean no write meanwhile.
        if totals.get(subject) == kept:
            return True
    with transaction.atomic():
        Subject.objects.select_for_update().get(id=subject)
        return totals.count(subject) != totals.get(subject)
