"""Replays: content that a restored backup brought back is erased again before serving.

The ledger is no part of a backup, so it lists the erasures to replay. See decision 18.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import transaction

from memoryhub import journal
from memoryhub.journal.rows import tombstones
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_targets
from memoryhub.queries.forget.erasure_targets import ErasureDraft, ErasureRequest
from memoryhub.queries.forget.erasures import CLOSED
from memoryhub.services.forget import (
    erasure_steps,
    erasures,
    ledger_targets,
    ledgers,
    project_deletions,
    thread_tombstones,
)
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.people.restrictions import PLANNED
from memoryhub.vault.proof.ledger import LedgerLine

log = structlog.get_logger()

Scope, State = Erasure.Scope, Erasure.State
ACTOR: Final = "command:replay"


def fence_and_count() -> int:
    """Fence resumed erasures; returns how many erasures are to be replayed.

    Fences what the ledger promises and the database has not begun, before any request
    is served: a process that died in between had promised it. Raises StartRefusedError.
    """
    standing = ledgers.compare_ledger()
    _fence_all(standing.resumed)
    maintenance.waiting = len(standing.replayed)
    if maintenance.waiting:
        log.warning("erasures.to_replay", count=maintenance.waiting)
    return maintenance.waiting


def list_pending() -> list[LedgerLine]:
    """List the erasures that a restore undid, oldest first.

    Raises StartRefusedError.
    """
    return list(ledgers.compare_ledger().replayed)


def resume_fences() -> int:
    """Fence what the ledger promises and no database has begun; returns how many."""
    lines = ledgers.compare_ledger().resumed
    _fence_all(lines)
    return len(lines)


def replay_erasure(line: LedgerLine) -> Erasure:
    """Run an erasure through all states again, up to its receipt or a wait.

    A missing row is created again under the same id. Returns the erasure as it is now;
    or an earlier erasure of the same subject that the backup holds half-done and that
    waits.
    """
    buried = thread_tombstones.find_unknown_thread(line)
    if (unfinished := _finish_others(buried or line)) is not None:
        return unfinished
    row = Erasure.objects.filter(id=line.erasure).first()
    before = ledgers.find_newest_line(line.erasure)
    if row is None and buried is not None:
        journal.run(partial(_lay_thread_tombstone, buried))
    elif row is None:
        row = journal.run(partial(_recreate_erasure, line))
        journal.run(partial(_confirm_again, row.id))
    else:
        # The keys database alone was restored: the key must be destroyed once more.
        journal.run(partial(_revert_to_fenced, row.id))
    row = erasures.run_erasure(line.erasure)
    if row.state == State.COMPLETE and ledgers.find_newest_line(line.erasure) == before:
        ledgers.record_replay(row)
    return row


def redo_project_deletion(line: LedgerLine) -> Project:
    """Close the project of a line again; its subjects have lines of their own."""
    project = Project.objects.get(id=line.project)
    return project_deletions.redo_deletion(
        project, reason=line.reason, ticket=line.ticket, actor=ACTOR
    )


def _fence_all(lines: Sequence[LedgerLine]) -> None:
    """Fence each erasure; a failing one stops neither the others nor the start."""
    for line in lines:
        try:
            _finish_others(line)
            journal.run(partial(_confirm_again, line.erasure))
            erasures.run_erasure(line.erasure, until=State.FENCED)
        except Exception as failure:  # noqa: BLE001  # any failure of this erasure
            log.error("erasure.not_fenced", code=type(failure).__name__)
        journal.run(partial(_keep_out, line.erasure))


def _keep_out(erasure: UUID) -> None:
    """Keep agents out of a promised erasure until the fence succeeds."""
    with erasure_steps.lock_erasure(erasure) as (row, _):
        if row.state in ledgers.UNFENCED:
            erasure_steps.restrict_subject(row, basis=PLANNED, actor=ACTOR)


def _finish_others(line: LedgerLine) -> Erasure | None:
    """Finish the subject's other half-done erasures; returns one that still waits.

    Only one erasure of a subject is open at a time. The erasure of a whole subject
    waits for no other.
    """
    whole = line.scope == Scope.SUBJECT
    rows = Erasure.objects.filter(subject=line.subject).exclude(id=line.erasure)
    rows = rows.exclude(confirmed_at=None).exclude(state__in=(*CLOSED, State.HELD))
    # A planned erasure need not begin before the whole subject is erased.
    for each in rows.exclude(state=State.PLANNED) if whole else rows:
        row = erasures.run_erasure(each.id)
        if row.state in CLOSED:
            continue
        if not whole:
            return row
        journal.run(partial(_expire_erasure, row.id))
    return None


def _expire_erasure(erasure: UUID) -> None:
    """Expire an open erasure."""
    with erasure_steps.lock_erasure(erasure) as (row, _):
        if row.state not in CLOSED:
            erasures.expire_plan(row, actor=ACTOR)


def _confirm_again(erasure: UUID) -> None:
    """Confirm the erasure again: the ledger proves that its token was presented."""
    with erasure_steps.lock_erasure(erasure) as (row, _):
        now = clock.now()
        if row.state not in (State.PLANNED, State.HELD):
            _expire_plans(row.subject_id)
        row.state, row.waiting_on, row.updated_at = State.PLANNED, "", now
        row.confirmed_at = row.confirmed_at or now
        row.save(update_fields=["state", "waiting_on", "updated_at", "confirmed_at"])


def _revert_to_fenced(erasure: UUID) -> None:
    """Put an erasure back to FENCED, so that its key is destroyed again."""
    with erasure_steps.lock_erasure(erasure) as (row, _):
        if row.state in ledgers.KEYLESS:
            row.state, row.updated_at = State.FENCED, clock.now()
            row.save(update_fields=["state", "updated_at"])


def _recreate_erasure(line: LedgerLine) -> Erasure:
    """Create the erasure of a line again, planned over the present content."""
    with transaction.atomic():
        owner = Subject.objects.select_for_update().filter(id=line.subject).first()
        if owner is None:
            owner = _create_unknown_subject(line)
        _expire_plans(owner.id)
        wish = _parse_wish(line)
        draft = erasure_targets.draft_plan(owner, wish)
        row = erasures.build_row(owner, wish, draft, ACTOR)
        # The plan can't be confirmed by a token again.
        row.id, row.created_at, row.expires_at = line.erasure, line.at, row.updated_at
        row.save(force_insert=True)
    return row


def _lay_thread_tombstone(line: LedgerLine) -> None:
    """Lay the tombstone of a thread unknown here, with an erasure of no rows.

    The erasure continues from there: its scan and receipt show that no content exists.
    """
    wish = ErasureRequest(scope=line.scope, reason=line.reason, ticket=line.ticket)
    targets = {"heads": [[line.targets[0], 0]], "ranges": []}
    draft = ErasureDraft(planned={"count": 0, "places": {}}, targets=targets)
    with transaction.atomic():
        owner = Subject.objects.select_for_update().get(id=line.subject)
        row = erasures.build_row(owner, wish, draft, ACTOR)
        row.id, row.ledger_n, row.created_at = line.erasure, line.n, line.at
        row.state = Erasure.State.ROWS_ERASED
        row.confirmed_at = row.expires_at = row.updated_at
        row.save(force_insert=True)
        digest = ledger_targets.parse_name_digest(line)
        assert digest is not None
        tombstones.lay_names(row, [digest])
        ledgers.record_applied(line)


def _parse_wish(line: LedgerLine) -> ErasureRequest:
    """Parse the wish of an erasure from its line."""
    given: dict[str, Any] = {"ticket": line.ticket}
    if line.scope == Scope.BEFORE:
        given |= ledger_targets.parse_before(line)
    elif line.scope != Scope.SUBJECT:
        given["thread"] = Thread.objects.get(id=line.targets[0])
        if line.scope == Scope.RECORD:
            given["seq"] = line.targets[1]
    return ErasureRequest(scope=line.scope, reason=line.reason, **given)


def _create_unknown_subject(line: LedgerLine) -> Subject:
    """Create a subject that the backup lacks, so that its tombstone can be laid.

    Otherwise the subject could be created anew, with no tombstone to forbid that.
    """
    return Subject.objects.create(
        id=line.subject,
        project_id=line.project,
        subject_ref=line.subject_ref,
        created_at=line.at,
    )


def _expire_plans(subject: UUID) -> None:
    """Expire mere plans: one erasure of a subject is open at a time."""
    for row in Erasure.objects.exclude(state__in=CLOSED).filter(subject=subject):
        if row.state in ledgers.UNFENCED:
            erasures.expire_plan(row, actor=ACTOR)
