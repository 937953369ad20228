"""Erasures: confirmed once, then run from state to state until a receipt proves them.

Each step says only what is true, is harmless when done twice, and is found again by the
erasure's id: whoever dies in the middle of one is followed by another.
"""

from __future__ import annotations

import hmac
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError

from memoryhub import journal
from memoryhub.errors import (
    AlreadyFencedError,
    CountMismatchError,
    ForgetBudgetError,
    InvalidError,
    NothingToEraseError,
    PlanExpiredError,
    PlanStaleError,
    Refusal,
    UnavailableError,
)
from memoryhub.journal.log import requests
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget.erasures import CLOSED, ErasureLine
from memoryhub.queries.forget.holds import in_force
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.forget import (
    ballast,
    erasure_plans,
    erasure_rows,
    erasure_steps,
)
from memoryhub.services.people.restrictions import PLANNED

log = structlog.get_logger()

State = Erasure.State
#: Erasures that one key may confirm in a day, by UTC.
A_DAY: Final = 100
#: With less room than this the disk is what a failed write waits for.
_ROOM_BYTES: Final = 16 << 20

#: By state: what has to be done for the next one. It enters that, or returns the word
#: of what it waits for.
_STEPS: Mapping[str, Callable[[Erasure], str]] = MappingProxyType(
    {
        State.PLANNED: erasure_steps.fence,
        State.FENCED: erasure_steps.close,
        State.TOMBSTONED: erasure_steps.purge,
        State.KEY_DESTROYED: erasure_steps.purge,
        State.ROWS_ERASED: erasure_steps.notify,
        State.CACHES_PURGED: erasure_steps.scrub,
        State.SCRUBBED: erasure_steps.verify,
        State.VERIFIED: erasure_steps.prove,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What a confirmation says, who says it, and under which Idempotency-Key."""

    token: str
    count: int
    actor: str
    request: PersonRequest | None = None


def confirm(
    erasure: Erasure,
    *,
    token: str,
    count: int,
    actor: str,
    request: PersonRequest | None = None,
) -> Erasure:
    """Begin what the plan says; for good. Said twice it is the same erasure.

    A subject is fenced when this returns; of narrower scopes the worker fences within
    two seconds. Under a hold the subject is restricted instead, and nothing goes.
    Raises InvalidError for a token that is not the plan's, CountMismatchError,
    NothingToEraseError, PlanExpiredError, ForgetBudgetError, and PlanStaleError once
    the plan was made anew in its place; InProgressError too for a `request` served
    meanwhile.
    """
    confirmation = Confirmation(token=token, count=count, actor=actor, request=request)
    settle = partial(_confirmed, erasure.id, confirmation)
    refusal: Refusal | None = _with_room(partial(journal.run, settle))
    if refusal is not None:
        raise refusal
    row = Erasure.objects.get(id=erasure.id)
    whole = row.scope == Erasure.Scope.SUBJECT
    return advance(row) if whole and row.state == State.PLANNED else row


def cancel(
    erasure: Erasure, *, actor: str, request: PersonRequest | None = None
) -> Erasure:
    """Drop a plan, or one that a hold keeps; a restriction of its own ends.

    Said twice it is the same. Raises AlreadyFencedError once it was confirmed, and
    InProgressError for a `request` served meanwhile.
    """
    work = partial(_cancelled, erasure.id, actor=actor, request=request)
    row: Erasure = journal.run(work)
    return row


def keep_out(erasure: Erasure, *, actor: str) -> Erasure:
    """Keep agents out until a plan is confirmed or expires, and count it anew.

    So it can't grow stale any more. Said twice it is the same. Raises PlanExpiredError,
    AlreadyFencedError once it was confirmed.
    """
    row: Erasure = journal.run(partial(_kept_out, erasure.id, actor=actor))
    return row


def advance(erasure: Erasure) -> Erasure:
    """Bring a confirmed erasure one state further, or note what it waits for."""
    row = Erasure.objects.select_related("subject", "thread").get(id=erasure.id)
    if row.state not in _STEPS or row.confirmed_at is None:
        return row
    try:
        waiting = _with_room(partial(_STEPS[row.state], row))
    except Refusal as failure:
        # Whatever it is, it is this one's alone: no other waits for it.
        log.warning("erasure.waits", code=failure.code, state=row.state)
        waiting = "disk" if _full() else "store"
    if waiting and waiting != row.waiting_on:
        journal.run(partial(_note_waiting, row.id, row.state, waiting))
    return Erasure.objects.select_related("subject", "thread").get(id=row.id)


def run(
    erasure: UUID,
    *,
    until: str = State.COMPLETE,
    stopped: Callable[[], bool] = lambda: False,
) -> Erasure:
    """Advance it state after state; no further once it waits for something."""
    row = Erasure.objects.get(id=erasure)
    while not (erasure_steps.reached(row, until) or stopped()):
        before = (row.state, row.updated_at)
        row = advance(row)
        if row.waiting_on or (row.state, row.updated_at) == before:
            break
    return row


def stall(erasure: Erasure) -> None:
    """Note that its next step broke: it waits until that is put right."""
    journal.run(partial(_note_waiting, erasure.id, erasure.state, "store"))


def due(now: datetime) -> list[UUID]:
    """List plans that nobody may confirm any more, and what a past hold kept."""
    rows = Erasure.objects.exclude(state__in=CLOSED)
    planned = rows.filter(state=State.PLANNED, confirmed_at=None, expires_at__lte=now)
    held = rows.filter(state=State.HELD)
    free = [row for row in held if not in_force(row.subject_id, now=now).exists()]
    return [*planned.values_list("id", flat=True), *(row.id for row in free)]


def tidy() -> int:
    """End what is due; returns how many. Restrictions of their own end with them."""
    return sum(journal.run(partial(_expired, each)) for each in due(clock.now()))


def require_token(row: Erasure, given: str) -> None:
    """Raise InvalidError unless it is the plan's."""
    if not hmac.compare_digest(erasure_plans.token(row).encode(), given.encode()):
        raise InvalidError(loc="plan_token", allowed="the token of this plan")


def _confirmed(erasure: UUID, confirmation: Confirmation) -> Refusal | None:
    """Decide, with the memory standing still; what is refused may be noted as well."""
    with erasure_rows.locked(erasure) as (row, owner):
        require_token(row, confirmation.token)
        if row.confirmed_at is not None:
            return None
        if row.state in CLOSED:
            return PlanExpiredError()
        line = ErasureLine.of(row)
        if confirmation.count != line.count:
            return CountMismatchError()
        if line.expires_at <= clock.now():
            erasure_plans.expire(row, actor=confirmation.actor)
            return PlanExpiredError()
        if not confirmation.count:
            return NothingToEraseError()
        _require_budget(row, confirmation.actor)
        return _settled(row, owner, confirmation)


def _settled(
    row: Erasure, owner: Subject, confirmation: Confirmation
) -> Refusal | None:
    require_subject(owner)
    now = clock.now()
    if in_force(owner.id, now=now).exists():
        erasure_plans.hold_back(row, actor=confirmation.actor)
        requests.claim(confirmation.request, subject=owner.id, erasure=row.id)
        return None
    draft = erasure_plans.drafted(owner, erasure_plans.wish_of(row))
    if owner.epoch != row.epoch or draft.moved(row):
        erasure_plans.renew(row, draft, owner)
        return PlanStaleError(erasure=str(row.id))
    row.actor, row.confirmed_at, row.updated_at = confirmation.actor, now, now
    row.save(update_fields=["actor", "confirmed_at", "updated_at"])
    requests.claim(confirmation.request, subject=owner.id, erasure=row.id)
    if row.scope == Erasure.Scope.SUBJECT:
        # Until the fence, which waits for the ledger's disk, nobody slips in.
        erasure_plans.restrict(row, basis=PLANNED, actor=confirmation.actor)
    return None


def _cancelled(
    erasure: UUID, *, actor: str, request: PersonRequest | None = None
) -> Erasure:
    with erasure_rows.locked(erasure) as (row, _):
        if row.state == State.CANCELLED:
            return row
        if row.state == State.EXPIRED:
            raise PlanExpiredError
        held = row.state == State.HELD
        if not held and row.confirmed_at is not None:
            raise AlreadyFencedError
        requests.claim(request, subject=row.subject_id, erasure=row.id)
        erasure_plans.enter(row, State.CANCELLED, actor=actor)
        erasure_plans.lift(row, actor=actor)
    return row


def _kept_out(erasure: UUID, *, actor: str) -> Erasure:
    with erasure_rows.locked(erasure) as (row, owner):
        if row.state in CLOSED or row.expires_at <= clock.now():
            raise PlanExpiredError
        if row.state != State.PLANNED or row.confirmed_at is not None:
            raise AlreadyFencedError
        if not row.restrict:
            row.restrict = True
            row.save(update_fields=["restrict"])
            erasure_plans.restrict(row, basis=PLANNED, actor=actor)
            draft = erasure_plans.drafted(owner, erasure_plans.wish_of(row))
            erasure_plans.renew(row, draft, owner)
    return row


def _expired(erasure: UUID) -> bool:
    with erasure_rows.locked(erasure) as (row, _):
        planned = row.state == State.PLANNED and row.confirmed_at is None
        if not planned and row.state != State.HELD:
            return False
        erasure_plans.expire(row, actor="worker:erasures")
    return True


def _require_budget(row: Erasure, actor: str) -> None:
    if not actor.startswith("agent:"):
        return
    now = clock.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    rows = Erasure.objects.filter(project_id=row.project_id, actor=actor)
    if rows.filter(confirmed_at__gte=today).count() >= A_DAY:
        tomorrow = today + timedelta(days=1)
        seconds = int((tomorrow - now).total_seconds()) + 1
        raise ForgetBudgetError(retry_after_seconds=seconds)


def _note_waiting(erasure: UUID, state: str, word: str) -> None:
    rows = Erasure.objects.filter(id=erasure, state=state)
    rows.update(waiting_on=word, updated_at=clock.now())


def _with_room(work: Callable[[], Any]) -> Any:
    """Do it, a second time with the ballast gone if there was no room for it."""
    try:
        return work()
    except (UnavailableError, DatabaseError, OSError) as failure:
        if not (_full() and ballast.release()):
            if isinstance(failure, UnavailableError):
                raise
            raise UnavailableError from None
    return work()


def _full() -> bool:
    return shutil.disk_usage(settings.DATA_DIR).free < _ROOM_BYTES
