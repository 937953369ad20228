"""Replays: what a restored backup brought back is erased once more before it is served.

The ledger lies outside of what is restored, so it knows.
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
from memoryhub.queries.forget.erasure_targets import Draft, Wish
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
from memoryhub.vault.proof.ledger import Line

log = structlog.get_logger()

Scope, State = Erasure.Scope, Erasure.State
ACTOR: Final = "command:replay"


def look() -> int:
    """Compare ledger and databases; returns how many erasures are to be replayed.

    What the ledger says and the database has not begun is fenced here, before anything
    is served: who died between the two had promised it already. Raises
    StartRefusedError.
    """
    standing = ledgers.compare()
    _fence(standing.resumed)
    maintenance.waiting = len(standing.replayed)
    if maintenance.waiting:
        log.warning("erasures.to_replay", count=maintenance.waiting)
    return maintenance.waiting


def pending() -> list[Line]:
    """Return what a restore has taken back, oldest first. Raises StartRefusedError."""
    return list(ledgers.compare().replayed)


def resume() -> int:
    """Fence what the ledger says and the database has not begun; returns how many."""
    lines = ledgers.compare().resumed
    _fence(lines)
    return len(lines)


def replay(line: Line) -> Erasure:
    """Run one through all states again, up to its receipt or to what it waits for.

    A row that is gone is made anew under the same id. Returns it as it is now; or an
    earlier one of the same subject, of which the backup holds a half and which waits.
    """
    buried = thread_tombstones.placed(line)
    if (unfinished := _make_way(buried or line)) is not None:
        return unfinished
    row = Erasure.objects.filter(id=line.erasure).first()
    before = ledgers.newest(line.erasure)
    if row is None and buried is not None:
        journal.run(partial(_bury, buried))
    elif row is None:
        row = journal.run(partial(_made, line))
        journal.run(partial(_confirm, row.id))
    else:
        # The keys database alone was restored: its key has to go once more.
        journal.run(partial(_taken_back, row.id))
    row = erasures.run(line.erasure)
    if row.state == State.COMPLETE and ledgers.newest(line.erasure) == before:
        ledgers.repeat(row)
    return row


def take_back(line: Line) -> Project:
    """Close the project of a line once more; its people are among the other lines."""
    project = Project.objects.get(id=line.project)
    return project_deletions.take_back(
        project, reason=line.reason, ticket=line.ticket, actor=ACTOR
    )


def _fence(lines: Sequence[Line]) -> None:
    """Fence each; one that breaks holds up neither the others nor the start."""
    for line in lines:
        try:
            _make_way(line)
            journal.run(partial(_confirm, line.erasure))
            erasures.run(line.erasure, until=State.FENCED)
        except Exception as failure:  # noqa: BLE001  # whatever is wrong with this one
            log.error("erasure.not_fenced", code=type(failure).__name__)
        journal.run(partial(_keep_out, line.erasure))


def _keep_out(erasure: UUID) -> None:
    """Keep agents from what was promised and can't be fenced yet, until it is."""
    with erasure_steps.locked(erasure) as (row, _):
        if row.state in ledgers.UNFENCED:
            erasure_steps.restrict(row, basis=PLANNED, actor=ACTOR)


def _make_way(line: Line) -> Erasure | None:
    """End what else a backup holds half-way of the subject; the one that waits, if any.

    One erasure of it is open at a time. Where all of it goes, it waits for none.
    """
    whole = line.scope == Scope.SUBJECT
    rows = Erasure.objects.filter(subject=line.subject).exclude(id=line.erasure)
    rows = rows.exclude(confirmed_at=None).exclude(state__in=(*CLOSED, State.HELD))
    # What has not begun yet need not begin before it goes.
    for each in rows.exclude(state=State.PLANNED) if whole else rows:
        row = erasures.run(each.id)
        if row.state in CLOSED:
            continue
        if not whole:
            return row
        journal.run(partial(_give_up, row.id))
    return None


def _give_up(erasure: UUID) -> None:
    with erasure_steps.locked(erasure) as (row, _):
        if row.state not in CLOSED:
            erasures.expire(row, actor=ACTOR)


def _confirm(erasure: UUID) -> None:
    """Confirm it as then: the ledger's line proves that somebody had its token."""
    with erasure_steps.locked(erasure) as (row, _):
        now = clock.now()
        if row.state not in (State.PLANNED, State.HELD):
            _make_room(row.subject_id)
        row.state, row.waiting_on, row.updated_at = State.PLANNED, "", now
        row.confirmed_at = row.confirmed_at or now
        row.save(update_fields=["state", "waiting_on", "updated_at", "confirmed_at"])


def _taken_back(erasure: UUID) -> None:
    with erasure_steps.locked(erasure) as (row, _):
        if row.state in ledgers.KEYLESS:
            row.state, row.updated_at = State.FENCED, clock.now()
            row.save(update_fields=["state", "updated_at"])


def _made(line: Line) -> Erasure:
    """Make the erasure of a line, planned anew over what there is now."""
    with transaction.atomic():
        owner = Subject.objects.select_for_update().filter(id=line.subject).first()
        if owner is None:
            owner = _absent(line)
        _make_room(owner.id)
        wish = _wish(line)
        draft = erasure_targets.drafted(owner, wish)
        row = erasures.build_row(owner, wish, draft, ACTOR)
        # Nobody confirms it again.
        row.id, row.created_at, row.expires_at = line.erasure, line.at, row.updated_at
        row.save(force_insert=True)
    return row


def _bury(line: Line) -> None:
    """Lay the tombstone of a thread that is not here, with an erasure of no rows.

    It goes on from there: what is scanned and signed is that there is none.
    """
    wish = Wish(scope=line.scope, reason=line.reason, ticket=line.ticket)
    targets = {"heads": [[line.targets[0], 0]], "ranges": []}
    draft = Draft(planned={"count": 0, "places": {}}, targets=targets)
    with transaction.atomic():
        owner = Subject.objects.select_for_update().get(id=line.subject)
        row = erasures.build_row(owner, wish, draft, ACTOR)
        row.id, row.ledger_n, row.created_at = line.erasure, line.n, line.at
        row.state = Erasure.State.ROWS_ERASED
        row.confirmed_at = row.expires_at = row.updated_at
        row.save(force_insert=True)
        digest = ledger_targets.name_digest(line)
        assert digest is not None
        tombstones.lay_names(row, [digest])
        ledgers.apply(line)


def _wish(line: Line) -> Wish:
    given: dict[str, Any] = {"ticket": line.ticket}
    if line.scope == Scope.BEFORE:
        given["before"] = ledger_targets.moment(line)
    elif line.scope != Scope.SUBJECT:
        given["thread"] = Thread.objects.get(id=line.targets[0])
        if line.scope == Scope.RECORD:
            given["seq"] = line.targets[1]
    return Wish(scope=line.scope, reason=line.reason, **given)


def _absent(line: Line) -> Subject:
    """Make somebody the backup does not know yet: erased before it is here.

    Or it could be made anew, with no tombstone to keep it out.
    """
    return Subject.objects.create(
        id=line.subject,
        project_id=line.project,
        subject_ref=line.subject_ref,
        created_at=line.at,
    )


def _make_room(subject: UUID) -> None:
    """Expire mere plans: one erasure of a subject is open at a time."""
    for row in Erasure.objects.exclude(state__in=CLOSED).filter(subject=subject):
        if row.state in ledgers.UNFENCED:
            erasures.expire(row, actor=ACTOR)
