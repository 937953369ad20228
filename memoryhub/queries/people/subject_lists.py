"""Lists of a project's subjects, newest first, by id alone. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import BigIntegerField, Exists, Func, Max, OuterRef, Subquery

from memoryhub.models import per_thread
from memoryhub.models.erasures import Hold
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.people.profiles import select_spoken

#: Most threads of a subject that a line counts; the subject's page counts all.
COUNTED = 1_000
STATES = tuple(Subject.State.values)
#: States of subjects whom nobody is forgetting or has forgotten.
LIVING = (Subject.State.ACTIVE.value, Subject.State.RESTRICTED.value)
#: Most names that a form offers.
OFFERED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectLine:
    """A subject as lists show it, without its id outside of MemoryHub."""

    id: UUID
    anonymous: bool
    state: str
    generation: int
    #: At most one more than `COUNTED`.
    threads: int
    #: When the subject's newest message came; None for who has said nothing.
    last_seen: datetime | None
    #: Whether a hold is in force.
    held: bool
    created_at: datetime

    @property
    def many(self) -> bool:
        """Tell whether there are more threads than are counted."""
        return self.threads > COUNTED


class _CappedThreadCount(Func):
    """Count of a subject's living threads, up to one more than COUNTED."""

    output_field = BigIntegerField()
    template = (
        "(SELECT COUNT(*) FROM (SELECT 1 FROM memoryhub_thread own"
        " WHERE own.project_id = %(expressions)s"
        " AND own.status NOT IN ('importing', 'erased') AND NOT own.home"
        " LIMIT 1001) few)"
    )
    arg_joiner = " AND own.subject_id = "


def list_subjects(
    project: Project,
    *,
    state: str = "",
    among: Sequence[str] = STATES,
    now: datetime,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[SubjectLine]:
    """List subjects by when they were first seen, latest first. One query.

    Leaves out subjects whose state is not `among` the given states. Raises
    BadCursorError when the cursor `after` belongs to another list.
    """
    listing = ListScope(name="subjects", project=project.id, filters=[state])
    rows = Subject.objects.filter(project=project, state__in=among)
    if state:
        rows = rows.filter(state=state)
    if after is not None:
        # Ids are in order of time.
        rows = rows.filter(id__lt=listing.open(after)[0])
    found: list[Any] = list(_annotate_rows(rows, now=now).order_by("-id")[: limit + 1])
    batch, rest = found[:limit], found[limit:]
    if per_thread.is_spread():
        seen = find_last_seen([row.id for row in batch])
    else:
        seen = {row.id: row.last_seen for row in batch}
    return ListBatch(
        items=tuple(_build_line(row, seen.get(row.id)) for row in batch),
        next=listing.seal([batch[-1].id]) if rest else None,
    )


def list_newest(project: Project, *, among: Sequence[str], limit: int) -> list[UUID]:
    """List the subjects of these states, first seen last first. One query."""
    rows = Subject.objects.filter(project=project, state__in=among)
    return [*rows.order_by("-id").values_list("id", flat=True)[:limit]]


def _annotate_rows(rows: Any, *, now: datetime) -> Any:
    holding = Hold.objects.filter(
        subject=OuterRef("id"), lifted_at=None, expires_at__gt=now
    )
    if not per_thread.is_spread():
        newest = select_spoken(subject=OuterRef("id")).values("at")[:1]
        rows = rows.annotate(last_seen=Subquery(newest))
    return rows.annotate(
        thread_count=_CappedThreadCount("project_id", "id"), held=Exists(holding)
    )


def find_last_seen(subjects: Sequence[UUID]) -> dict[UUID, datetime]:
    """Find when each subject's newest message came, on a cluster. One query.

    Reads the index entries of all messages of these subjects: a cluster refuses the
    subquery that reads the newest one of each.
    """
    rows = select_spoken(subject__in=subjects).order_by().values_list("subject")
    return dict(rows.annotate(at=Max("at")).values_list("subject", "at"))


def find_newest_threads(
    project: Project, subjects: Sequence[UUID], *, among: Sequence[str]
) -> dict[UUID, str]:
    """Find the name of the thread of each subject that moved last. One query.

    Leaves out subjects whose state is not `among` the given states, and those without
    a living thread.
    """
    own = Thread.objects.filter(project=project, subject=OuterRef("id"), home=False)
    living = own.exclude(status__in=(Thread.Status.IMPORTING, Thread.Status.ERASED))
    newest = living.order_by("-listed_at", "id").values("name")[:1]
    rows = Subject.objects.filter(
        project=project, id__in=subjects, state__in=among
    ).annotate(newest=Subquery(newest))
    return dict(rows.exclude(newest=None).values_list("id", "newest"))


def _build_line(row: Any, last_seen: datetime | None) -> SubjectLine:
    return SubjectLine(
        id=row.id,
        anonymous=row.anonymous,
        state=row.state,
        generation=row.generation,
        threads=row.thread_count,
        last_seen=last_seen,
        held=row.held,
        created_at=row.created_at,
    )


def list_thread_names(subject: Subject) -> tuple[str, ...]:
    """List names of the subject's threads that moved last, for a form. One query."""
    rows = Thread.objects.filter(
        project=subject.project_id, subject=subject, home=False
    )
    living = rows.exclude(status__in=(Thread.Status.IMPORTING, Thread.Status.ERASED))
    newest = living.order_by("-listed_at", "id")
    return tuple(newest.values_list("name", flat=True)[:OFFERED])
