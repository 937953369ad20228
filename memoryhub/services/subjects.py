"""Subjects: found by the digest of their outside id, or made with a key of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import IntegrityError, transaction

from memoryhub import journal
from memoryhub.errors import SubjectErasedError
from memoryhub.models.clock import clock
from memoryhub.models.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.vault import blind_index, keys, payloads

_GONE = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A subject that is still to be inserted; its key is made."""

    id: UUID
    project: UUID
    ref: bytes
    external_id: bytes


def find(project: UUID, user_id: str) -> Subject | None:
    """The subject known outside by `user_id`. One query."""
    ref = blind_index.subject_ref(keys.project_key(project), user_id)
    return Subject.objects.filter(project_id=project, subject_ref=ref).first()


def find_or_create(project: UUID, user_id: str) -> Subject:
    """The subject of that outside id, made if it is new.

    Raises SubjectErasedError for one that was erased.
    """
    subject = find(project, user_id)
    if subject is None:
        made: Subject = journal.run(partial(_insert, prepare(project, user_id)))
        subject = made
    return alive(subject)


def alive(subject: Subject) -> Subject:
    """The subject. Raises SubjectErasedError for one that is erased."""
    if subject.state in _GONE:
        raise SubjectErasedError
    return subject


def prepare(project: UUID, user_id: str) -> Prepared:
    """All of a new subject but its row, which `create` inserts.

    The key is committed before the first row sealed under it; an orphan is swept later.
    """
    subject = uuid7()
    keys.create_subject_key(subject, project_id=project)
    sealed = payloads.seal(
        keys.subject_keys(subject, epoch=1),
        _place(project, subject),
        user_id.encode(),
    )
    ref = blind_index.subject_ref(keys.project_key(project), user_id)
    return Prepared(id=subject, project=project, ref=ref, external_id=sealed)


async def create(prepared: Prepared) -> Subject:
    """Insert the subject, or find the one that someone else made meanwhile.

    Raises SubjectErasedError for one that was erased. No thread waits for the writer.
    """
    made: Subject = await journal.run_async(partial(_insert, prepared))
    return alive(made)


def anonymous(project: UUID) -> Subject:
    """The project's subject for memory that is about nobody in particular."""
    return Subject.objects.exclude(state__in=_GONE).get(
        project_id=project, anonymous=True
    )


def create_anonymous(project: UUID) -> Subject:
    """Make a project's anonymous subject, with its key."""
    subject = uuid7()
    keys.create_subject_key(subject, project_id=project)
    return Subject.objects.create(
        id=subject, project_id=project, anonymous=True, created_at=clock.now()
    )


def external_id(subject: Subject) -> str | None:
    """The outside id, opened; None for the anonymous subject."""
    if subject.external_id is None:
        return None
    opened = keys.subject_keys(subject.id, epoch=subject.epoch)
    place = _place(subject.project_id, subject.id)
    return payloads.open_sealed(opened, place, bytes(subject.external_id)).decode()


def _insert(new: Prepared) -> Subject:
    try:
        with transaction.atomic():
            return Subject.objects.create(
                id=new.id,
                project_id=new.project,
                subject_ref=new.ref,
                external_id=new.external_id,
                created_at=clock.now(),
            )
    except IntegrityError:
        # Someone else was faster; theirs is the one.
        return Subject.objects.get(project_id=new.project, subject_ref=new.ref)


def _place(project: UUID, subject: UUID) -> payloads.Place:
    return payloads.Place(
        project=project,
        subject=subject,
        thread=UUID(int=0),
        seq=0,
        purpose=payloads.Purpose.EXTERNAL_ID,
    )
