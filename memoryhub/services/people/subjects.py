"""Subjects: found by the digest of their outside id, or created with their own key."""

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
class PreparedSubject:
    """Subject whose key is made and whose row is not inserted yet."""

    id: UUID
    project: UUID
    ref: bytes
    external_id: bytes
    #: More than 1 for a readmitted subject, which keeps nothing of its predecessor.
    generation: int = 1


def find(project: UUID, user_id: str, *, bound: UUID | None = None) -> Subject | None:
    """Find the subject of this `user_id`, if it is the `bound` one.

    Raises SubjectErasedError for an erased subject, and InvalidError (`user_id`) for an
    invalid id that no subject has. One query, and one for a miss.
    """
    ref = compute_ref(project, user_id)
    subject = Subject.objects.filter(project_id=project, subject_ref=ref).first()
    if subject is not None and bound in (None, subject.id):
        return require_alive(subject)
    gone = None if subject else tombstones.find_subject(project, ref)
    if gone is not None and bound in (None, gone.subject):
        raise gone.build_refusal()
    # Validate last: an existing subject is found by any id.
    user_ids.require(user_id)
    return None


def has_named(project: UUID) -> bool:
    """Return whether a project has a subject with a user id. One query."""
    named = Subject.objects.filter(project_id=project, subject_ref__isnull=False)
    return named.exists()


def compute_ref(project: UUID, user_id: str) -> bytes:
    """Compute the keyed digest by which a `user_id` is found."""
    return blind_index.digest_user_id(keys.get_project_key(project), user_id)


def find_or_create(project: UUID, user_id: str) -> Subject:
    """Return the subject of that `user_id`, created if new.

    Raises SubjectErasedError for an erased subject, and InvalidError (`user_id`).
    """
    subject = find(project, user_id)
    if subject is None:
        made: Subject = journal.run(
            partial(insert_subject, prepare_subject(project, user_id))
        )
        return require_alive(made)
    return subject


def require_alive(subject: Subject) -> Subject:
    """Return the subject. Raises SubjectErasedError for an erased subject."""
    require_subject(subject)
    return subject


def prepare_subject(
    project: UUID, user_id: str, *, generation: int = 1
) -> PreparedSubject:
    """Prepare all of a new subject but its row.

    `insert_subject_async` inserts the row. The key is committed before the first row
    sealed under it; an orphan is swept later.
    """
    subject = uuid7()
    keys.create_subject_key(subject, project_id=project)
    sealed = payloads.seal(
        keys.get_subject_keys(subject, epoch=1),
        _build_address(project, subject),
        user_id.encode(),
    )
    return PreparedSubject(
        id=subject,
        project=project,
        ref=compute_ref(project, user_id),
        external_id=sealed,
        generation=generation,
    )


async def insert_subject_async(prepared: PreparedSubject) -> Subject:
    """Insert the subject, or find the one that another process created meanwhile.

    Raises SubjectErasedError for an erased subject. No thread waits for the writer.
    """
    made: Subject = await journal.run_async(partial(insert_subject, prepared))
    return require_alive(made)


def get_anonymous(project: UUID) -> Subject:
    """Get the project's subject for memory that is about nobody in particular.

    Raises ProjectDeletedError once the anonymous subject is erased with its project.
    """
    rows = Subject.objects.exclude(state__in=_GONE)
    found = rows.filter(project_id=project, anonymous=True).first()
    if found is None:
        raise ProjectDeletedError
    return found


def create_anonymous(project: UUID) -> Subject:
    """Create a project's anonymous subject, with its key."""
    subject = uuid7()
    keys.create_subject_key(subject, project_id=project)
    return Subject.objects.create(
        id=subject, project_id=project, anonymous=True, created_at=clock.now()
    )


def open_user_id(subject: Subject) -> str | None:
    """Open the subject's user id; None for the anonymous subject."""
    if subject.external_id is None:
        return None
    opened = keys.get_subject_keys(subject.id, epoch=subject.epoch)
    address = _build_address(subject.project_id, subject.id)
    return payloads.open_sealed(opened, address, bytes(subject.external_id)).decode()


def insert_subject(new: PreparedSubject) -> Subject:
    """Insert a prepared subject, or return the existing one; runs in the writer.

    Raises SubjectErasedError for a subject that was erased and not readmitted, and
    ProjectDeletedError.
    """
    with transaction.atomic():
        fence.require_active(new.project)
        return insert_with_thread(new)


def insert_with_thread(new: PreparedSubject) -> Subject:
    """Insert as `insert_subject` does, in the transaction that makes a thread.

    The count of the thread refuses a deleted project, and locks the project's row: a
    lock that is shared before could end in a deadlock of two processes.
    """
    try:
        with transaction.atomic():
            made = Subject.objects.create(
                id=new.id,
                project_id=new.project,
                subject_ref=new.ref,
                external_id=new.external_id,
                generation=new.generation,
                created_at=clock.now(),
            )
            # Check after the insert: an erasure clears a ref only after laying its
            # tombstone, so an insert that succeeds can also see the tombstone.
            gone = tombstones.find_subject(new.project, new.ref)
            if gone is not None and gone.generation >= new.generation:
                raise gone.build_refusal()
            return made
    except IntegrityError:
        # Another process was faster; its subject is returned, unless erased meanwhile.
        rows = Subject.objects.filter(project_id=new.project, subject_ref=new.ref)
        subject = rows.first()
        if subject is None:
            raise SubjectErasedError from None
        return subject


def _build_address(project: UUID, subject: UUID) -> payloads.PayloadAddress:
    """Build the address under which a subject's user id is sealed."""
    return payloads.PayloadAddress(
        project=project,
        subject=subject,
        thread=UUID(int=0),
        seq=0,
        purpose=payloads.Purpose.EXTERNAL_ID,
    )
