"""Checks that the keys at hand open what is sealed: a restore may bring older keys.

Never writes, and returns no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from memoryhub.errors import (
    CorruptError,
    KeyMissingError,
    SealBrokenError,
    SubjectErasedError,
)
from memoryhub.journal import texts
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread


def iter_key_checks() -> Iterator[tuple[UUID, bool]]:
    """Yield each subject that has sealed texts, with whether the newest one opens.

    Raises ColdStorageError. Cost: three queries and an opened text for each subject.
    """
    rows = Subject.objects.exclude(state=Subject.State.ERASED).order_by("id")
    for subject in rows.iterator(chunk_size=200):
        if (event := _find_newest_sealed(subject)) is not None:
            try:
                texts.open_payload(subject, subject.project_id, event)
            except SubjectErasedError:
                # Erased since the subject was read.
                continue
            except (CorruptError, KeyMissingError, SealBrokenError):
                yield subject.id, False
            else:
                yield subject.id, True


def _find_newest_sealed(subject: Subject) -> Event | None:
    """Find the newest event with a sealed text in the thread that was written last."""
    threads = Thread.objects.filter(subject=subject).order_by("-last_event_at")
    for thread in threads.exclude(status=Thread.Status.IMPORTING).iterator():
        events = thread.events.filter(payload__isnull=False).order_by("-seq")
        if (event := events.first()) is not None:
            return event
    return None
