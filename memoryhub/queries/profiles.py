"""Profiles: what is held of one person, counted and never opened. Never writes.

Counts are exact and without a cap. What left a scratchpad or was overwritten is still a
record in the journal, and counts as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Length

from memoryhub.errors import NotFoundError
from memoryhub.models.audit import DailyUse
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.queries import erasures, holds, retention, tombstones
from memoryhub.queries.erasures import ErasureLine
from memoryhub.queries.holds import HoldLine

#: Days that uses are told one by one for; before them each key has a sum.
DAYS: Final = 90
#: Erasures that are shown, newest first; the list has them all.
ERASURES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Records of one type of event."""

    events: int
    #: Those that have a content, and those that had one that was erased.
    sealed: int
    erased: int
    #: Of the contents, as they are stored.
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A key's reads and writes: on one day, or altogether."""

    prefix: str
    first_day: date
    last_day: date
    reads: int
    writes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A subject with all that is kept of her, in numbers."""

    id: UUID
    anonymous: bool
    state: str
    #: Why she is restricted, as a word.
    basis: str | None
    epoch: int
    generation: int
    created_at: datetime
    #: Of her events, None without any.
    first_seen: datetime | None
    last_seen: datetime | None
    #: By status.
    threads: Mapping[str, int]
    events: int
    #: By type of event.
    kinds: Mapping[str, Kind]
    #: Of all contents.
    bytes: int
    turns: int
    #: Messages, those that a fork inherits not counted again.
    slots: int
    #: Those that are there, and those that were deleted and leave a line.
    pages: int
    deleted_pages: int
    #: Lower levels and FULL of old versions, by level.
    levels: Mapping[int, int]
    #: Names that have a value now.
    keys: int
    notes: int
    checkpoints: int
    #: Values, names and ids that may not come back, by kind.
    tombstones: Mapping[str, int]
    #: Which key read and wrote: altogether, and of the last days each.
    uses: Sequence[Use]
    days: Sequence[Use]
    holds: Sequence[HoldLine]
    erasures: Sequence[ErasureLine]
    #: When the retention policy ends the first of her threads; None: never.
    retention_due_at: datetime | None


def get_subject(project: UUID, subject: UUID, *, bound: UUID | None = None) -> Subject:
    """A subject of the project, and of the key if that is bound. One query.

    Its project comes with it. Raises NotFoundError, SubjectErasedError.
    """
    rows = Subject.objects.select_related("project").filter(project_id=project)
    row = rows.filter(id=subject).first() if bound in (None, subject) else None
    if row is None:
        raise NotFoundError
    tombstones.require_subject(row)
    return row


def get_profile(subject: Subject, *, now: datetime) -> Profile:
    """What is held of a subject. Eleven queries, however much it is.

    `subject` comes with its project.
    """
    return Profile(
        id=subject.id,
        anonymous=subject.anonymous,
        state=subject.state,
        basis=subject.basis or None,
        epoch=subject.epoch,
        generation=subject.generation,
        created_at=subject.created_at,
        **_threads(subject),
        **_records(_kinds(subject)),
        **_pages(subject),
        levels=_levels(subject),
        keys=_keys(subject, now),
        **_privacy(subject, now),
        retention_due_at=retention.get_first_due_at(subject),
    )


def _threads(subject: Subject) -> dict[str, Any]:
    """Threads by status, and when they were first and last written to. One query."""
    own = Thread.objects.filter(project=subject.project, subject=subject)
    rows = own.exclude(status=Thread.Status.IMPORTING).order_by().values("status")
    counted = [
        *rows.annotate(
            count=Count("id"), first=Min("created_at"), last=Max("last_event_at")
        )
    ]
    return {
        "threads": {row["status"]: row["count"] for row in counted},
        "first_seen": min((row["first"] for row in counted), default=None),
        "last_seen": max((row["last"] for row in counted), default=None),
    }


def _of(subject: Subject) -> Q:
    """Rows of the subject's threads, by the index of these."""
    own = Thread.objects.filter(project=subject.project_id, subject=subject)
    return Q(thread__in=own.exclude(status=Thread.Status.IMPORTING).values("id"))


def _kinds(subject: Subject) -> dict[str, Kind]:
    """Events by type. One query, which looks at each of them and opens none."""
    rows = Event.objects.filter(_of(subject)).order_by("type").values("type")
    counted = rows.annotate(
        events=Count("seq"),
        sealed=Count("payload"),
        erased=Count("erased_by"),
        bytes=Sum(Length("payload")),
    )
    return {
        row["type"]: Kind(
            events=row["events"],
            sealed=row["sealed"],
            erased=row["erased"],
            bytes=row["bytes"] or 0,
        )
        for row in counted
    }


def _records(kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """What follows from the events by type."""
    left = {name: kind.events - kind.erased for name, kind in kinds.items()}
    return {
        "events": sum(kind.events for kind in kinds.values()),
        "kinds": kinds,
        "bytes": sum(kind.bytes for kind in kinds.values()),
        "turns": left.get("turn.began", 0),
        "slots": left.get("slot.appended", 0),
        "notes": left.get("note.added", 0),
        "checkpoints": left.get("checkpoint.taken", 0),
    }


def _pages(subject: Subject) -> dict[str, Any]:
    """Pages of all threads; a fork's own rows count, inherited ones once. One query."""
    return Page.objects.filter(_of(subject)).aggregate(
        pages=Count("page_id", filter=Q(deleted_seq=None)),
        deleted_pages=Count("page_id", filter=Q(deleted_seq__isnull=False)),
    )


def _levels(subject: Subject) -> dict[int, int]:
    rows = PageLevel.objects.filter(_of(subject)).order_by("level")
    return dict(rows.values_list("level").annotate(Count("page_id")))


def _keys(subject: Subject, now: datetime) -> int:
    rows = Key.objects.filter(_of(subject))
    return rows.filter(Q(expires_at=None) | Q(expires_at__gt=now)).count()


def _privacy(subject: Subject, now: datetime) -> dict[str, Any]:
    """Who used it, and what was and may be done about it. Five queries."""
    project, own = subject.project_id, subject.id
    uses = DailyUse.objects.filter(subject=subject)
    recent = uses.filter(day__gt=now.date() - timedelta(days=DAYS))
    shown = erasures.list_erasures(project, subject=own, limit=ERASURES)
    return {
        "tombstones": tombstones.count_tombstones(project, subject=own),
        "uses": _uses(uses, by=("key__prefix",)),
        "days": _uses(recent, by=("day", "key__prefix")),
        "holds": holds.list_of(own, now=now),
        "erasures": shown.items,
    }


def _uses(rows: QuerySet[DailyUse], *, by: tuple[str, ...]) -> tuple[Use, ...]:
    """Sums by key, or by day and key, newest first. One query."""
    summed = (
        rows.order_by()
        .values(*by)
        .annotate(
            first=Min("day"), last=Max("day"), read=Sum("reads"), written=Sum("writes")
        )
    )
    return tuple(
        Use(
            prefix=row["key__prefix"],
            first_day=row["first"],
            last_day=row["last"],
            reads=row["read"],
            writes=row["written"],
        )
        for row in summed.order_by("-last", "key__prefix")
    )
