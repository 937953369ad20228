"""Readmissions: an erased person returns as a new subject, without earlier memory."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from memoryhub import journal
from memoryhub.errors import NotErasedError, NotFoundError
from memoryhub.journal import audit
from memoryhub.journal.log import requests
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.tombstones import DeadUserId
from memoryhub.models.subjects import Subject
from memoryhub.services.people import subjects
from memoryhub.services.people.subjects import PreparedSubject


def readmit_subject(
    project: UUID, user_id: str, *, actor: str, bound: UUID | None = None
) -> Subject:
    """Readmit a `user_id`: a new subject of the next generation, with a new key.

    Nothing old attaches: no thread, no key, no value's tombstone; and names of erased
    threads stay dead. Raises NotErasedError unless the last subject of that id is
    completely erased, and NotFoundError to a caller bound to another subject.
    """
    prepared = prepare_readmission(project, user_id, bound=bound)
    made: Subject = journal.run(partial(insert_readmission, prepared, actor))
    return made


async def insert_readmission_async(
    prepared: PreparedSubject, *, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Insert a prepared subject, for coroutines.

    Raises NotErasedError, InProgressError. `request` is recorded with the subject;
    whoever repeats the request looks there first.
    """
    made: Subject = await journal.run_async(
        partial(insert_readmission, prepared, actor, request)
    )
    return made


def prepare_readmission(
    project: UUID, user_id: str, *, bound: UUID | None = None
) -> PreparedSubject:
    """Prepare all of the new subject but its row.

    Raises NotErasedError, NotFoundError, and InvalidError (`user_id`) for an invalid id
    that no subject ever had.

    A refusal makes no key.
    """
    ref = subjects.compute_ref(project, user_id)
    gone = tombstones.find_subject(project, ref)
    if gone is None or bound not in (None, gone.subject):
        # Refuses an invalid id.
        subjects.find(project, user_id, bound=bound)
        if bound is not None:
            raise NotFoundError
    if gone is None or _filter_living_predecessors(gone, ref).exists():
        raise NotErasedError
    return subjects.prepare_subject(project, user_id, generation=gone.generation + 1)


def _filter_living_predecessors(gone: DeadUserId, ref: bytes) -> QuerySet[Subject]:
    """Filter the subjects of that ref, and the last one if not completely erased."""
    going = Q(id=gone.subject) & ~Q(state=Subject.State.ERASED)
    return Subject.objects.filter(Q(project=gone.project, subject_ref=ref) | going)


def insert_readmission(
    prepared: PreparedSubject, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Insert a prepared subject's row; runs in the writer. Raises NotErasedError."""
    with transaction.atomic():
        made = subjects.insert_subject(prepared)
        if made.id != prepared.id:
            # Another process has readmitted the person meanwhile.
            raise NotErasedError
        requests.claim(request, subject=made.id)
        audit.append(
            actor=actor,
            action="subject.readmitted",
            project=made.project_id,
            target_kind="subject",
            target_id=str(made.id),
            subject=made.id,
        )
    return made
