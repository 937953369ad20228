"""Deleting a project: what it takes, and how far it is. Never writes."""

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

#: Whose erasures are those of a deletion.
ACTOR: Final = "worker:deletion"
_GONE: Final = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What deleting a project would take, and what forbids it."""

    #: Subjects who are not erased yet; the one who is nobody is one of them.
    people: int
    threads: int
    #: Events that still have their content.
    events: int
    #: API keys that nobody has revoked yet.
    keys: int
    #: In force: while there is any nothing of it is deleted.
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the erasures of a deletion are: `done` of `people` have a receipt."""

    done: int
    people: int
    #: What those wait for that are under way; words, none twice, a defect's class in
    #: brackets behind.
    waiting_on: tuple[str, ...]


def get_counts(project: Project, *, now: datetime) -> Counts:
    """Get what deleting it would take now. Five queries."""
    threads = Thread.objects.filter(project=project)
    sealed = Event.objects.filter(thread__project=project, payload__isnull=False)
    return Counts(
        people=_people(project).exclude(state=Subject.State.ERASED).count(),
        threads=threads.exclude(status=Thread.Status.ERASED).count(),
        events=sealed.count(),
        keys=ApiKey.objects.filter(project=project, revoked_at=None).count(),
        holds=holds(project, now=now).count(),
    )


def get_progress(project: Project) -> Progress:
    """Get how far the deletion is that was begun. Three queries."""
    complete = Erasure.objects.filter(project=project, actor=ACTOR)
    done = complete.filter(state=Erasure.State.COMPLETE).count()
    waiting = open_erasures(project).exclude(waiting_on="").order_by()
    found = {*waiting.values_list("waiting_on", "defect")}
    return Progress(
        done=done,
        people=done + unfinished(project).count(),
        waiting_on=tuple(
            sorted(f"{word} ({defect})" if defect else word for word, defect in found)
        ),
    )


def holds(project: Project, *, now: datetime) -> QuerySet[Hold]:
    """Return the holds that stand against erasing somebody of the project."""
    return Hold.objects.filter(project=project, lifted_at=None, expires_at__gt=now)


def open_erasures(project: Project) -> QuerySet[Erasure]:
    """Return what of the project was planned or begun, and is not at its end."""
    return Erasure.objects.filter(project=project).exclude(state__in=CLOSED)


def unfinished(project: Project) -> QuerySet[Subject]:
    """Return those of the project who are not erased to the receipt."""
    begun = open_erasures(project).filter(subject=OuterRef("id"))
    return _people(project).filter(~Q(state=Subject.State.ERASED) | Exists(begun))


def waiting(project: Project) -> QuerySet[Subject]:
    """Return those who can be handed in: nobody else has an erasure of theirs open."""
    ours = Q(actor=ACTOR, confirmed_at=None)
    others = open_erasures(project).filter(subject=OuterRef("id")).exclude(ours)
    rows = _people(project).exclude(state__in=_GONE).exclude(Exists(others))
    return rows.order_by("id")


def _people(project: Project) -> QuerySet[Subject]:
    return Subject.objects.filter(project=project)
