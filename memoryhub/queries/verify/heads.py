"""Heads of watched threads; cheap enough to read often. Never writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db.models import OuterRef, Subquery

from memoryhub.errors import NotFoundError, SubjectErasedError, ThreadErasedError
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasure_views import ErasureProof

_REFUSALS = {
    ThreadErasedError.code: ThreadErasedError,
    SubjectErasedError.code: SubjectErasedError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedHead:
    """A thread's newest seq, and what forbids reading the thread."""

    thread: UUID
    project: UUID
    subject: UUID
    seq: int
    #: Code of the refusal that a read of an erased thread gets; else None.
    erased: str | None
    restricted: bool
    #: The erasure that took the thread, and its receipt once issued.
    proof: ErasureProof | None = None


def list_heads(
    threads: Collection[UUID], *, project: UUID | None = None
) -> dict[UUID, WatchedHead]:
    """List heads of existing threads, by thread; in one project if given.

    One query, and one more if any thread is erased.
    """
    rows = Thread.objects.filter(id__in=list(threads))
    if project is not None:
        rows = rows.filter(project_id=project).exclude(status=Thread.Status.IMPORTING)
    columns = ("id", "project_id", "subject_id", "head_seq", "status", "subject__state")
    heads = (
        WatchedHead(
            thread=thread,
            project=owner,
            subject=subject,
            seq=seq,
            erased=_find_refusal(status, state),
            restricted=state == Subject.State.RESTRICTED,
        )
        for thread, owner, subject, seq, status, state in rows.values_list(*columns)
    )
    found = {head.thread: head for head in heads}
    gone = [head.thread for head in found.values() if head.erased]
    proofs = erasure_views.list_proofs(gone) if gone else {}
    return found | {
        thread: replace(found[thread], proof=proof) for thread, proof in proofs.items()
    }


def get_row(thread: UUID) -> Thread:
    """Return a thread for panels, with its subject and project. One query.

    Raises NotFoundError; ThreadErasedError and SubjectErasedError with the erasure that
    took the thread.
    """
    row = Thread.objects.select_related("subject", "project").filter(id=thread).first()
    if row is None:
        raise NotFoundError
    erased = _find_refusal(row.status, row.subject.state)
    if erased is not None:
        proof = erasure_views.list_proofs([thread]).get(thread)
        raise _REFUSALS[erased](**(proof.detail if proof else {}))
    return row


def get_seq(thread: UUID) -> int:
    """Return the seq of the thread's head now. One query."""
    return Thread.objects.values_list("head_seq", flat=True).get(id=thread)


def list_newest(projects: Collection[UUID]) -> dict[UUID, datetime | None]:
    """Return when each project's threads were last new or moved, at most 10 s behind.

    One query, one step of an index a project.
    """
    threads = Thread.objects.filter(project_id=OuterRef("id")).order_by("-listed_at")
    rows = Project.objects.filter(id__in=list(projects)).annotate(
        newest=Subquery(threads.values("listed_at")[:1])
    )
    return dict(rows.values_list("id", "newest"))


def _find_refusal(status: str, subject_state: str) -> str | None:
    if status == Thread.Status.ERASED:
        return ThreadErasedError.code
    if subject_state in {Subject.State.ERASING, Subject.State.ERASED}:
        return SubjectErasedError.code
    return None
