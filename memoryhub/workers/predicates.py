"""Predicates: folds those of older versions anew, once after an upgrade.

A migration marks the home threads. Digests of a timeline follow from the sealed claim,
so a pass that is killed begins the thread again and changes nothing twice. See decision
91.
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from memoryhub import journal
from memoryhub.errors import KeyMissingError, Refusal, UnavailableError
from memoryhub.journal.log import fence
from memoryhub.journal.rows.knowledge import assertion_rows
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread

#: Threads found in one query.
THREADS = 50
#: Seconds after which a pass begins no other thread: the lease is renewed only between
#: passes.
PASS_SECONDS = 5
_READABLE = (Subject.State.ACTIVE, Subject.State.RESTRICTED)


def fold_anew(now: datetime) -> int:
    """Fold the predicates of marked home threads; return how many are done.

    One query to find the threads, by an index that holds nothing else. For 500 claims,
    one transaction of at most eight statements. Restricted subjects are included,
    since nobody reads a text. A thread that can't be read keeps its mark.
    """
    done, after, end = 0, UUID(int=0), time.monotonic() + PASS_SECONDS
    while batch := list(_list_due().filter(id__gt=after)[:THREADS]):
        for after, subject in batch:
            try:
                _fold_thread(after, subject)
                done += 1
            except Refusal as refusal:
                missing_key = isinstance(refusal, KeyMissingError)
                if isinstance(refusal, UnavailableError) and not missing_key:
                    return done
            if time.monotonic() >= end:
                return done
    return done


def _list_due() -> QuerySet[Thread, tuple[UUID, UUID]]:
    """List the ids of due threads, each with its subject's id."""
    rows = Thread.objects.filter(
        predicates_due=True, status=Thread.Status.OPEN, subject__state__in=_READABLE
    )
    return rows.order_by("id").values_list("id", "subject_id")


def _fold_thread(thread: UUID, subject: UUID) -> None:
    seq: int | None = 0
    while seq is not None:
        seq = journal.run(partial(_fold_claims, thread, subject, seq))


def _fold_claims(thread: UUID, subject: UUID, after: int) -> int | None:
    """Fold the next claims behind seq `after`; runs in the writer.

    Returns None after the last claim, and once an erasure of the thread has begun. An
    erasure that comes later waits, so no deleted row returns.
    """
    with transaction.atomic():
        held = fence.hold([subject]).get(subject)
        rows = Thread.objects.filter(id=thread, status=Thread.Status.OPEN)
        locked = rows.select_for_update().values_list("id", flat=True)
        if held is None or held.state not in _READABLE or not [*locked]:
            return None
        seq = assertion_rows.refresh_rows(thread, after=after)
        if seq is None:
            rows.update(predicates_due=None)
    return seq
