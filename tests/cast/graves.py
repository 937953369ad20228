"""Rows as an eraser leaves them, for tests of code that meets erased records."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction

from memoryhub import journal
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.tombstones import ValueDigest
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys
from memoryhub.vault.keys.keys import SubjectKeys


def make_erasure(subject: Subject, **fields: Any) -> Erasure:
    """Make an erasure that is complete, unless `fields` say otherwise."""
    now = clock.now()
    return Erasure.objects.create(
        **{
            "project_id": subject.project_id,
            "subject": subject,
            "scope": "subject",
            "reason": "test",
            "actor": "command",
            "state": "complete",
            "epoch": subject.epoch,
            "created_at": now,
            "confirmed_at": now,
            "expires_at": now + timedelta(minutes=15),
            "updated_at": now,
            **fields,
        }
    )


def make_receipt(erasure: Erasure) -> Receipt:
    return Receipt.objects.create(
        id=uuid7(),
        project_id=erasure.project_id,
        erasure=erasure,
        text="{}",
        issued_at=clock.now(),
    )


def open_keys(subject: Subject) -> SubjectKeys:
    return keys.get_subject_keys(subject.id, epoch=subject.epoch)


def bury_values(subject: Subject, values: Iterable[tuple[str, object]]) -> int:
    """Keep (kind, content) values out of a subject's memory; return the new ones."""
    erasure = make_erasure(subject, scope="record", state="complete")
    laid = []
    for kind, content in values:
        digest = tombstones.digest_value(open_keys(subject), content)
        if digest is not None:
            laid.append(ValueDigest(of=kind, digest=digest))

    def lay() -> int:
        with transaction.atomic():
            return tombstones.lay_values(erasure, laid)

    count: int = journal.run(lay)
    return count


def bury_thread(thread: Thread) -> Erasure:
    """Leave of a thread's row what its erasure leaves: a name nobody can say."""
    subject = Subject.objects.get(id=thread.subject_id)
    erasure = make_erasure(subject, scope="thread", thread=thread)

    def lay() -> None:
        with transaction.atomic():
            tombstones.lay_threads(erasure, [thread.name])
            Thread.objects.filter(id=thread.id).update(
                name=f"~{thread.id.hex}", status=Thread.Status.ERASED
            )

    journal.run(lay)
    return erasure


def bury_subject(subject: Subject) -> Erasure:
    """Leave of a subject's row what an erasure leaves: a row that says nothing."""
    erasure = make_erasure(subject)

    def lay() -> None:
        with transaction.atomic():
            row = Subject.objects.select_for_update().get(id=subject.id)
            tombstones.lay_subject(erasure, row)
            Subject.objects.filter(id=row.id).update(
                state=Subject.State.ERASED,
                epoch=row.epoch + 1,
                subject_ref=None,
                external_id=None,
            )

    journal.run(lay)
    for thread in Thread.objects.filter(subject=subject).exclude(status="erased"):
        bury_thread(thread)
    return erasure
