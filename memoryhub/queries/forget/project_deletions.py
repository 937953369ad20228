"""Deletion of a project: counts before it, and its progress. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.erasures import Erasure, Hold
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasures import CLOSED

#: Actor of the erasures that belong to a deletion.
ACTOR: Final = "worker:deletion"
_GONE: Final = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionCounts:
    """Counts of what deleting a project would take, and of holds that forbid it."""

    #: Subjects that are not erased yet, the anonymous subject included.
    people: int
    threads: int
    #: Events that still have their content.
    events: int
    #: API keys that are not revoked.
    keys: int
    #: Holds in force: any hold forbids the deletion.
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionProgress:
    """Progress of a deletion's erasures: `done` of `people` have a receipt."""

    done: int
    people: int
    #: Distinct words that open erasures wait on; a defect's class follows in brackets.
    waiting_on: tuple[str, ...]


def get_counts(project: Project, *, now: datetime) -> DeletionCounts:
    """Count what deleting the project would take now. Five queries."""
    threads = Thread.objects.filter(project=project)
    sealed = Event.objects.filter(thread__project=project, payload__isnull=False)
    return DeletionCounts(
        people=_select_subjects(project).exclude(state=Subject.State.ERASED).count(),
        threads=threads.exclude(status=Thread.Status.ERASED).count(),
        events=sealed.count(),
        keys=ApiKey.objects.filter(project=project, revoked_at=None).count(),
        holds=select_holds(project, now=now).count(),
    )


def get_progress(project: Project) -> DeletionProgress:
    """Return the progress of the project's deletion. Three queries."""
    complete = Erasure.objects.filter(project=project, actor=ACTOR)
    done = complete.filter(state=Erasure.State.COMPLETE).count()
    waiting = select_open_erasures(project).exclude(waiting_on="").order_by()
    found = {*waiting.values_list("waiting_on", "defect")}
    return DeletionProgress(
        done=done,
        people=done + select_unfinished(project).count(),
        waiting_on=tuple(
            sorted(f"{word} ({defect})" if defect else word for word, defect in found)
        ),
    )


def select_holds(project: Project, *, now: datetime) -> QuerySet[Hold]:
    """Select the holds in force on subjects of the project."""
    return Hold.objects.filter(project=project, lifted_at=None, expires_at__gt=now)


def select_open_erasures(project: Project) -> QuerySet[Erasure]:
    """Select the project's erasures that are planned or begun, and not closed."""
    return Erasure.objects.filter(project=project).exclude(state__in=CLOSED)


def select_unfinished(project: Project) -> QuerySet[Subject]:
    """Select the project's subjects whose erasure is not complete."""
    begun = select_open_erasures(project).filter(subject=OuterRef("id"))
    return _select_subjects(project).filter(
        ~Q(state=Subject.State.ERASED) | Exists(begun)
    )


def select_waiting(project: Project) -> QuerySet[Subject]:
    """Select the subjects that the deletion can erase: no other erasure is open."""
    ours = Q(actor=ACTOR, confirmed_at=None)
    others = select_open_erasures(project).filter(subject=OuterRef("id")).exclude(ours)
    rows = _select_subjects(project).exclude(state__in=_GONE).exclude(Exists(others))
    return rows.order_by("id")


def _select_subjects(project: Project) -> QuerySet[Subject]:
    return Subject.objects.filter(project=project)
