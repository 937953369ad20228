"""Subjects: found by the digest of their outside id, or made with a key of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import IntegrityError, transaction

from memoryhub import journal
from memoryhub.errors import ProjectDeletedError, SubjectErasedError
from memoryhub.journal.log import fence
from memoryhub.journal.rows import tombstones
from memoryhub.kernel.text import user_ids
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.queries.tombstones import require_subject
from memoryhub.vault.keys import blind_index, keys, payloads

_GONE = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A subject that is still to be inserted; its key is made."""

    id: UUID
    project: UUID
    ref: bytes
    external_id: bytes
    #: More than 1 for one that was erased and comes back, with nothing of it.
    generation: int = 1


def find(project: UUID, user_id: str, *, bound: UUID | None = None) -> Subject | None:
    """Find the subject of this `user_id`, if it is the `bound` one.

    Raises SubjectErasedError for one that was erased, and InvalidError (`user_id`) for
    what is nobody's and can be nobody's. One query, and one for a miss.
    """
    ref = ref_of(project, user_id)
    subject = Subject.objects.filter(project_id=project, subject_ref=ref).first()
    if subject is not None and bound in (None, subject.id):
        return alive(subject)
    gone = None if subject else tombstones.find_subject(project, ref)
    if gone is not None and bound in (None, gone.subject):
        raise gone.refusal()
    # Last: whoever is there already is reached, by whatever id.
    user_ids.require(user_id)
    return None


def has_named(project: UUID) -> bool:
    """Return whether anybody in particular has memory in a project. One query."""
    named = Subject.objects.filter(project_id=project, subject_ref__isnull=False)
    return named.exists()


def ref_of(project: UUID, user_id: str) -> bytes:
    """Return the keyed digest by which a `user_id` is found."""
    return blind_index.subject_ref(keys.project_key(project), user_id)


def find_or_create(project: UUID, user_id: str) -> Subject:
    """Return the subject of that `user_id`, made if it is new.

    Raises SubjectErasedError for one that was erased, and InvalidError (`user_id`).
    """
    subject = find(project, user_id)
    if subject is None:
        made: Subject = journal.run(partial(insert, prepare(project, user_id)))
        return alive(made)
    return subject


def alive(subject: Subject) -> Subject:
    """Return the subject. Raises SubjectErasedError for one that is erased."""
    require_subject(subject)
    return subject


def prepare(project: UUID, user_id: str, *, generation: int = 1) -> Prepared:
    """Prepare all of a new subject but its row, which `create` inserts.

    The key is committed before the first row sealed under it; an orphan is swept later.
    """
    subject = uuid7()
    keys.create_subject_key(subject, project_id=project)
    sealed = payloads.seal(
        keys.subject_keys(subject, epoch=1),
        _address(project, subject),
        user_id.encode(),
    )
    return Prepared(
        id=subject,
        project=project,
        ref=ref_of(project, user_id),
        external_id=sealed,
        generation=generation,
    )


async def create(prepared: Prepared) -> Subject:
    """Insert the subject, or find the one that someone else made meanwhile.

    Raises SubjectErasedError for one that was erased. No thread waits for the writer.
    """
    made: Subject = await journal.run_async(partial(insert, prepared))
    return alive(made)


def anonymous(project: UUID) -> Subject:
    """Return the project's subject for memory that is about nobody in particular.

    Raises ProjectDeletedError once it is erased for good, with its project.
    """
    rows = Subject.objects.exclude(state__in=_GONE)
    found = rows.filter(project_id=project, anonymous=True).first()
    if found is None:
        raise ProjectDeletedError
    return found


def create_anonymous(project: UUID) -> Subject:
    """Make a project's anonymous subject, with its key."""
    subject = uuid7()
    keys.create_subject_key(subject, project_id=project)
    return Subject.objects.create(
        id=subject, project_id=project, anonymous=True, created_at=clock.now()
    )


def external_id(subject: Subject) -> str | None:
    """Open the subject's user id; None for the anonymous subject."""
    if subject.external_id is None:
        return None
    opened = keys.subject_keys(subject.id, epoch=subject.epoch)
    address = _address(subject.project_id, subject.id)
    return payloads.open_sealed(opened, address, bytes(subject.external_id)).decode()


def insert(new: Prepared) -> Subject:
    """Insert a prepared subject, or return the one that is there; in the writer.

    Raises SubjectErasedError for one that was erased and not readmitted, and
    ProjectDeletedError.
    """
    try:
        with transaction.atomic():
            fence.require_active(new.project)
            made = Subject.objects.create(
                id=new.id,
                project_id=new.project,
                subject_ref=new.ref,
                external_id=new.external_id,
                generation=new.generation,
                created_at=clock.now(),
            )
            # After the insert: an eraser lets go of a ref only once its tombstone is
            # there, so what could be inserted can also be seen to be erased.
            gone = tombstones.find_subject(new.project, new.ref)
            if gone is not None and gone.generation >= new.generation:
                raise gone.refusal()
            return made
    except IntegrityError:
        # Someone else was faster; theirs is the one, unless it was erased as fast.
        rows = Subject.objects.filter(project_id=new.project, subject_ref=new.ref)
        subject = rows.first()
        if subject is None:
            raise SubjectErasedError from None
        return subject


def _address(project: UUID, subject: UUID) -> payloads.PayloadAddress:
    return payloads.PayloadAddress(
        project=project,
        subject=subject,
        thread=UUID(int=0),
        seq=0,
        purpose=payloads.Purpose.EXTERNAL_ID,
    )
