"""Erasures: planned, confirmed once, then run from state to state up to a receipt.

A plan is a dry run: the counts of what would be erased, signed for 15 minutes. A plan
changes no memory, and only the holder of its token can confirm it.

Each step states only what is true, may be repeated without harm, and is found again by
the erasure's id: if a process dies in a step, another process continues.
See decision 25.
"""

from __future__ import annotations

import hmac
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.utils.crypto import salted_hmac

from memoryhub import journal
from memoryhub.errors import (
    AlreadyFencedError,
    CountMismatchError,
    ErasureInProgressError,
    ForgetBudgetError,
    InvalidError,
    NothingToEraseError,
    PlanExpiredError,
    PlanStaleError,
    Refusal,
    SeqUnknownError,
    ThreadErasedError,
    UnavailableError,
)
from memoryhub.journal.log import requests
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.kernel.state.erase_events import REASONS
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasure_targets import (
    Clock,
    ErasureDraft,
    ErasureRequest,
    build_request,
    draft_plan,
)
from memoryhub.queries.forget.erasures import CLOSED, ErasureLine
from memoryhub.queries.forget.holds import select_in_force
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.forget import ballast, erasure_steps
from memoryhub.services.forget.erasure_steps import get_confirmed_digest, to_json
from memoryhub.services.people.restrictions import PLANNED

log = structlog.get_logger()

PLAN_LIFETIME: Final = timedelta(minutes=15)
TICKET_PATTERN: Final = re.compile(r"[A-Z]{1,8}-[0-9]{1,7}")
TICKET_RULE: Final = "1 to 8 capital letters, `-`, 1 to 7 digits"
_FIRST_YEAR: Final = 1970
_TOKEN_SALT: Final = "memoryhub.erasure.plan"  # noqa: S105 # a name, no secret

Scope, State = Erasure.Scope, Erasure.State
#: Erasures that one key may confirm in a day, by UTC.
A_DAY: Final = 100
#: Free bytes below which the disk counts as full.
_ROOM_BYTES: Final = 16 << 20

#: The step that leads from each state to the next. A step enters the next state, or
#: returns the word of what it waits for.
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
class ErasureConfirmation:
    """Confirmation of a plan: token, count, actor and Idempotency-Key."""

    token: str
    count: int
    actor: str
    request: PersonRequest | None = None


def plan(
    subject: Subject,
    *,
    scope: str,
    reason: str,
    actor: str,
    thread: Thread | None = None,
    before: datetime | None = None,
    clocked: Clock = "occurred",
    seq: int | None = None,
    ticket: str | None = None,
    restrict: bool = False,
    request: PersonRequest | None = None,
) -> Erasure:
    """Count what would be erased and keep the plan for 15 minutes; changes no memory.

    With `restrict` agents are kept out until the plan is confirmed or expires, so that
    the plan can't grow stale. `before` compares when a record happened, or with
    `clocked` "recorded" when it was recorded; a thread narrows it. Raises
    InvalidError, ErasureInProgressError while another erasure of the subject is open,
    SubjectErasedError, ThreadErasedError,
    SeqUnknownError; InProgressError too for a `request` served meanwhile, which is
    recorded with the plan.
    """
    wish = ErasureRequest(
        scope=scope,
        reason=reason,
        thread=thread,
        before=before,
        clock=clocked,
        seq=seq,
        ticket=ticket,
        restrict=restrict,
    )
    check_wish(wish, subject=subject, now=clock.now())
    journal.run(partial(_expire_prior, subject.id, actor))
    # Count outside the writer, which others wait for: `confirm` checks later whether
    # the count still holds. With `restrict` agents must be kept out from the count on,
    # so the writer counts.
    draft = None if restrict else draft_plan(Subject.objects.get(id=subject.id), wish)
    insert = partial(_insert_plan, subject.id, wish, draft, actor, request)
    made: Erasure = journal.run(insert)
    return made


def confirm(
    erasure: Erasure,
    *,
    token: str,
    count: int,
    actor: str,
    request: PersonRequest | None = None,
) -> Erasure:
    """Begin a planned erasure, for good. A repeat returns the same erasure.

    A subject is fenced when this returns; narrower scopes are fenced by the worker
    within two seconds. Under a hold the subject is restricted instead, and nothing is
    erased. Raises InvalidError for a token that is not the plan's, CountMismatchError,
    NothingToEraseError, PlanExpiredError, ForgetBudgetError, and PlanStaleError once a
    new plan replaced the stale one; InProgressError too for a `request` served
    meanwhile.
    """
    confirmation = ErasureConfirmation(
        token=token, count=count, actor=actor, request=request
    )
    settle = partial(_confirm_locked, erasure.id, confirmation)
    refusal: Refusal | None = _run_with_room(partial(journal.run, settle))
    if refusal is not None:
        raise refusal
    row = Erasure.objects.get(id=erasure.id)
    whole = row.scope == Scope.SUBJECT
    return advance_erasure(row) if whole and row.state == State.PLANNED else row


def cancel(
    erasure: Erasure, *, actor: str, request: PersonRequest | None = None
) -> Erasure:
    """Cancel a plan, or an erasure that a hold keeps; its own restriction ends.

    A repeat returns the same erasure. Raises AlreadyFencedError once the plan was
    confirmed, and InProgressError for a `request` served meanwhile.
    """
    work = partial(_cancel_locked, erasure.id, actor=actor, request=request)
    row: Erasure = journal.run(work)
    return row


def keep_out(erasure: Erasure, *, actor: str) -> Erasure:
    """Keep agents out until a plan is confirmed or expires, and count the plan anew.

    After this the plan can't grow stale. A repeat changes nothing. Raises
    PlanExpiredError, and AlreadyFencedError once the plan was confirmed.
    """
    row: Erasure = journal.run(partial(_keep_out_locked, erasure.id, actor=actor))
    return row


def advance_erasure(erasure: Erasure) -> Erasure:
    """Advance a confirmed erasure by one state, or record what it waits for."""
    row = Erasure.objects.select_related("subject", "thread").get(id=erasure.id)
    if row.state not in _STEPS or row.confirmed_at is None:
        return row
    defect = ""
    try:
        waiting = _run_with_room(partial(_STEPS[row.state], row))
    except Refusal as failure:
        # Any failure concerns this erasure alone: no other erasure waits for it.
        log.warning("erasure.waits", code=failure.code, state=row.state)
        defect = journal.name_defect(failure)
        waiting = "broken" if defect else "disk" if _is_disk_full() else "store"
    if waiting and (waiting, defect) != (row.waiting_on, row.defect):
        journal.run(partial(_note_waiting, row.id, row.state, waiting, defect))
    return Erasure.objects.select_related("subject", "thread").get(id=row.id)


def run_erasure(
    erasure: UUID,
    *,
    until: str = State.COMPLETE,
    stopped: Callable[[], bool] = lambda: False,
) -> Erasure:
    """Advance the erasure state by state, until it waits for something."""
    row = Erasure.objects.get(id=erasure)
    while not (erasure_steps.has_reached(row, until) or stopped()):
        before = (row.state, row.updated_at)
        row = advance_erasure(row)
        if row.waiting_on or (row.state, row.updated_at) == before:
            break
    return row


def record_failure(erasure: Erasure, failure: Exception) -> None:
    """Record that a step of the erasure failed: by an outage, or by a defect."""
    defect = journal.name_defect(failure)
    word = "broken" if defect else "store"
    journal.run(partial(_note_waiting, erasure.id, erasure.state, word, defect))


def list_due(now: datetime) -> list[UUID]:
    """List expired plans, and held erasures whose holds have ended."""
    rows = Erasure.objects.exclude(state__in=CLOSED)
    planned = rows.filter(state=State.PLANNED, confirmed_at=None, expires_at__lte=now)
    held = rows.filter(state=State.HELD)
    free = [
        row for row in held if not select_in_force(row.subject_id, now=now).exists()
    ]
    return [*planned.values_list("id", flat=True), *(row.id for row in free)]


def close_due() -> int:
    """Close all due erasures and their restrictions; returns how many were closed."""
    return sum(
        journal.run(partial(_expire_locked, each)) for each in list_due(clock.now())
    )


def check_wish(wish: ErasureRequest, *, subject: Subject, now: datetime) -> None:
    """Raise InvalidError or another Refusal for an impossible wish."""
    if wish.scope not in Scope.values:
        raise InvalidError(loc="scope")
    require_reason(wish.reason, wish.ticket)
    for loc, given, scopes in (
        ("thread", wish.thread, (Scope.THREAD, Scope.RECORD)),
        ("before", wish.before, (Scope.BEFORE,)),
        ("record", wish.seq, (Scope.RECORD,)),
    ):
        if loc == "thread" and wish.scope == Scope.BEFORE:
            continue
        if (given is not None) != (wish.scope in scopes):
            code = "missing" if given is None else "value"
            raise InvalidError(code=code, loc=loc)
    if wish.before is not None:
        _require_past(wish.before, now=now)
    _require_thread(wish, subject)


def require_reason(reason: str, ticket: str | None) -> None:
    """Raise InvalidError unless reason and ticket are valid."""
    if reason not in REASONS:
        raise InvalidError(loc="reason")
    if ticket is not None and not TICKET_PATTERN.fullmatch(ticket):
        raise InvalidError(loc="ticket", allowed=TICKET_RULE)


def require_token(row: Erasure, given: str) -> None:
    """Raise InvalidError unless the token is the plan's."""
    if not hmac.compare_digest(build_token(row).encode(), given.encode()):
        raise InvalidError(loc="plan_token", allowed="the token of this plan")


def build_token(row: Erasure) -> str:
    """Build the token of exactly this plan: HMAC-SHA256 under a key from SECRET_KEY."""
    planned, targets = (
        get_confirmed_digest(row.planned),
        get_confirmed_digest(row.targets),
    )
    says = (row.id, row.scope, row.epoch, planned, targets, row.expires_at)
    signed = orjson.dumps([str(each) for each in says])
    return salted_hmac(_TOKEN_SALT, signed, algorithm="sha256").hexdigest()


def build_row(
    owner: Subject, wish: ErasureRequest, draft: ErasureDraft, actor: str
) -> Erasure:
    """Build the row of a plan, which the caller stores."""
    now = clock.now()
    return Erasure(
        project_id=owner.project_id,
        subject=owner,
        scope=wish.scope,
        thread=wish.thread,
        before=wish.before,
        seq=wish.seq,
        reason=wish.reason,
        ticket=wish.ticket,
        restrict=wish.restrict,
        actor=actor,
        epoch=owner.epoch,
        planned=to_json(draft.planned),
        targets=to_json(draft.targets),
        created_at=now,
        expires_at=now + PLAN_LIFETIME,
        updated_at=now,
    )


def renew_plan(row: Erasure, draft: ErasureDraft, subject: Subject) -> None:
    """Replace a stale plan by a fresh one; call in a transaction."""
    now = clock.now()
    row.planned, row.targets = (
        to_json(draft.planned),
        to_json(draft.targets),
    )
    row.epoch, row.expires_at, row.updated_at = subject.epoch, now + PLAN_LIFETIME, now
    row.save(update_fields=["planned", "targets", "epoch", "expires_at", "updated_at"])


def expire_plan(row: Erasure, *, actor: str) -> None:
    """Expire an unconfirmed plan and its restriction; call in a transaction."""
    erasure_steps.enter_state(row, State.EXPIRED, actor=actor)
    erasure_steps.lift_restriction(row, actor=actor)


def _expire_prior(subject: UUID, actor: str) -> None:
    """Expire a prior erasure of the subject that can't be confirmed any more."""
    with transaction.atomic():
        row = Subject.objects.select_for_update().get(id=subject)
        require_subject(row)
        prior = Erasure.objects.exclude(state__in=CLOSED).filter(subject=row).first()
        if prior is not None:
            _require_closable(prior)
            expire_plan(prior, actor=actor)


def _require_closable(prior: Erasure) -> None:
    """Raise ErasureInProgressError unless the open erasure may be closed."""
    now = clock.now()
    waited = (
        prior.state == State.HELD
        and not select_in_force(prior.subject_id, now=now).exists()
    )
    planned = prior.state == State.PLANNED and prior.confirmed_at is None
    if not waited and not (planned and prior.expires_at <= now):
        raise ErasureInProgressError(erasure=str(prior.id))


def _insert_plan(
    subject: UUID,
    wish: ErasureRequest,
    draft: ErasureDraft | None,
    actor: str,
    request: PersonRequest | None,
) -> Erasure:
    """Insert the plan, with its restriction if one was requested: both or neither."""
    try:
        with transaction.atomic():
            owner = Subject.objects.select_for_update().get(id=subject)
            require_subject(owner)
            row = build_row(owner, wish, draft or draft_plan(owner, wish), actor)
            row.save(force_insert=True)
            requests.claim(request, subject=owner.id, erasure=row.id)
            erasure_steps.enter_state(row, State.PLANNED, actor=actor)
            if wish.restrict:
                erasure_steps.restrict_subject(row, basis=PLANNED, actor=actor)
    except IntegrityError:
        # Another request's plan was faster.
        faster = Erasure.objects.exclude(state__in=CLOSED).filter(subject=subject)
        detail = {"erasure": str(found.id)} if (found := faster.first()) else {}
        raise ErasureInProgressError(**detail) from None
    return row


def _require_past(before: datetime, *, now: datetime) -> None:
    """Raise InvalidError unless `before` is a past time since 1970."""
    if before.tzinfo is None or before.year < _FIRST_YEAR or before > now:
        raise InvalidError(
            code="time_range", loc="before", allowed="a time that is past, since 1970"
        )


def _require_thread(wish: ErasureRequest, subject: Subject) -> None:
    """Raise a Refusal unless the thread and seq are of this subject and not erased."""
    thread = wish.thread
    if thread is None:
        return
    if thread.subject_id != subject.id:
        raise InvalidError(loc="thread", allowed="a thread of this subject")
    if thread.status == Thread.Status.ERASED:
        raise ThreadErasedError
    if wish.seq is not None and not 1 <= wish.seq <= thread.head_seq:
        raise SeqUnknownError


def _confirm_locked(erasure: UUID, confirmation: ErasureConfirmation) -> Refusal | None:
    """Confirm under lock; returns rather than raises a refusal, so writes commit."""
    with erasure_steps.lock_erasure(erasure) as (row, owner):
        require_token(row, confirmation.token)
        if row.confirmed_at is not None:
            return None
        if row.state in CLOSED:
            return PlanExpiredError()
        line = ErasureLine.from_row(row)
        if confirmation.count != line.count:
            return CountMismatchError()
        if line.expires_at <= clock.now():
            expire_plan(row, actor=confirmation.actor)
            return PlanExpiredError()
        if not confirmation.count:
            return NothingToEraseError()
        _require_budget(row, confirmation.actor)
        return _settle_confirmation(row, owner, confirmation)


def _settle_confirmation(
    row: Erasure, owner: Subject, confirmation: ErasureConfirmation
) -> Refusal | None:
    """Hold the erasure, renew a stale plan, or record the confirmation; locked."""
    require_subject(owner)
    now = clock.now()
    if select_in_force(owner.id, now=now).exists():
        erasure_steps.hold_erasure(row, actor=confirmation.actor)
        requests.claim(confirmation.request, subject=owner.id, erasure=row.id)
        return None
    draft = draft_plan(owner, build_request(row))
    if owner.epoch != row.epoch or draft.has_changed(row):
        renew_plan(row, draft, owner)
        return PlanStaleError(erasure=str(row.id))
    row.actor, row.confirmed_at, row.updated_at = confirmation.actor, now, now
    row.save(update_fields=["actor", "confirmed_at", "updated_at"])
    requests.claim(confirmation.request, subject=owner.id, erasure=row.id)
    if row.scope == Scope.SUBJECT:
        # Keep agents out until the fence, which waits for the ledger's disk.
        erasure_steps.restrict_subject(row, basis=PLANNED, actor=confirmation.actor)
    return None


def _cancel_locked(
    erasure: UUID, *, actor: str, request: PersonRequest | None = None
) -> Erasure:
    """Cancel the erasure under lock."""
    with erasure_steps.lock_erasure(erasure) as (row, _):
        if row.state == State.CANCELLED:
            return row
        if row.state == State.EXPIRED:
            raise PlanExpiredError
        held = row.state == State.HELD
        if not held and row.confirmed_at is not None:
            raise AlreadyFencedError
        requests.claim(request, subject=row.subject_id, erasure=row.id)
        erasure_steps.enter_state(row, State.CANCELLED, actor=actor)
        erasure_steps.lift_restriction(row, actor=actor)
    return row


def _keep_out_locked(erasure: UUID, *, actor: str) -> Erasure:
    """Restrict the subject and count the plan anew, under lock."""
    with erasure_steps.lock_erasure(erasure) as (row, owner):
        if row.state in CLOSED or row.expires_at <= clock.now():
            raise PlanExpiredError
        if row.state != State.PLANNED or row.confirmed_at is not None:
            raise AlreadyFencedError
        if not row.restrict:
            row.restrict = True
            row.save(update_fields=["restrict"])
            erasure_steps.restrict_subject(row, basis=PLANNED, actor=actor)
            draft = draft_plan(owner, build_request(row))
            renew_plan(row, draft, owner)
    return row


def _expire_locked(erasure: UUID) -> bool:
    """Expire the erasure under lock; returns whether it was still open."""
    with erasure_steps.lock_erasure(erasure) as (row, _):
        planned = row.state == State.PLANNED and row.confirmed_at is None
        if not planned and row.state != State.HELD:
            return False
        expire_plan(row, actor="worker:erasures")
    return True


def _require_budget(row: Erasure, actor: str) -> None:
    """Raise ForgetBudgetError beyond 100 confirmations of a key in a day."""
    if not actor.startswith("agent:"):
        return
    now = clock.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    rows = Erasure.objects.filter(project_id=row.project_id, actor=actor)
    if rows.filter(confirmed_at__gte=today).count() >= A_DAY:
        tomorrow = today + timedelta(days=1)
        seconds = int((tomorrow - now).total_seconds()) + 1
        raise ForgetBudgetError(retry_after_seconds=seconds, max_per_day=A_DAY)


def _note_waiting(erasure: UUID, state: str, word: str, defect: str) -> None:
    """Record what the erasure waits for, unless its state has changed."""
    rows = Erasure.objects.filter(id=erasure, state=state)
    rows.update(waiting_on=word, defect=defect[:64], updated_at=clock.now())


def _run_with_room(work: Callable[[], Any]) -> Any:
    """Run the work; if the disk is full, release the ballast and run it once more."""
    try:
        return work()
    except (UnavailableError, DatabaseError, OSError) as failure:
        if not (_is_disk_full() and ballast.release_ballast()):
            if isinstance(failure, UnavailableError):
                raise
            unavailable = UnavailableError()
            unavailable.defect = journal.name_defect(failure)
            raise unavailable from None
    return work()


def _is_disk_full() -> bool:
    """Return whether the disk has less than `_ROOM_BYTES` free."""
    return shutil.disk_usage(settings.DATA_DIR).free < _ROOM_BYTES
