"""Readmissions: an erased person comes back as somebody new, with nothing of before."""

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
from memoryhub.services.people.subjects import Prepared


def readmit(
    project: UUID, user_id: str, *, actor: str, bound: UUID | None = None
) -> Subject:
    """Let a `user_id` in again: a new subject of the next generation, with a new key.

    Nothing old attaches: no thread, no key, no value's tombstone; and names of erased
    threads stay dead. Raises NotErasedError unless the last subject of that id is
    erased to the end, and NotFoundError to who knows another subject alone.
    """
    prepared = prepare(project, user_id, bound=bound)
    made: Subject = journal.run(partial(insert, prepared, actor))
    return made


async def create(
    prepared: Prepared, *, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Insert what was prepared; for coroutines. Raises NotErasedError, InProgressError.

    `request` is noted beside it; whoever repeats it looks there first.
    """
    made: Subject = await journal.run_async(partial(insert, prepared, actor, request))
    return made


def prepare(project: UUID, user_id: str, *, bound: UUID | None = None) -> Prepared:
    """Prepare all of the new subject but its row.

    Raises NotErasedError, NotFoundError, and InvalidError (`user_id`) for what can be
    nobody's and was not.

    A refusal makes no key.
    """
    ref = subjects.ref_of(project, user_id)
    gone = tombstones.find_subject(project, ref)
    if gone is None or bound not in (None, gone.subject):
        # Refuses what can be nobody's.
        subjects.find(project, user_id, bound=bound)
        if bound is not None:
            raise NotFoundError
    if gone is None or _same_person(gone, ref).exists():
        raise NotErasedError
    return subjects.prepare(project, user_id, generation=gone.generation + 1)


def _same_person(gone: DeadUserId, ref: bytes) -> QuerySet[Subject]:
    """Whoever has that ref, and the last who had it if it is not gone for good."""
    going = Q(id=gone.subject) & ~Q(state=Subject.State.ERASED)
    return Subject.objects.filter(Q(project=gone.project, subject_ref=ref) | going)


def insert(
    prepared: Prepared, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Insert the row of a prepared subject; in the writer. Raises NotErasedError."""
    with transaction.atomic():
        made = subjects.insert(prepared)
        if made.id != prepared.id:
            # Somebody else has readmitted it meanwhile.
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
