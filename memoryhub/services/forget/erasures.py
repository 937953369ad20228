"""Erasures: planned, confirmed once, then run from state to state up to a receipt.

A plan is a dry run: what would go, counted beforehand and signed for 15 minutes.
Nothing of the memory changes, and only who has its token can confirm it.

Each step says only what is true, is harmless when done twice, and is found again by the
erasure's id: whoever dies in the middle of one is followed by another.
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
from memoryhub.queries.forget.erasure_targets import Draft, Wish, drafted, wish_of
from memoryhub.queries.forget.erasures import CLOSED, ErasureLine
from memoryhub.queries.forget.holds import in_force
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.forget import ballast, erasure_steps
from memoryhub.services.forget.erasure_steps import as_confirmed, text
from memoryhub.services.people.restrictions import PLANNED

log = structlog.get_logger()

VALID: Final = timedelta(minutes=15)
TICKET: Final = re.compile(r"[A-Z]{1,8}-[0-9]{1,7}")
TICKET_RULE: Final = "1 to 8 capital letters, `-`, 1 to 7 digits"
_FIRST_YEAR: Final = 1970
_TOKEN_SALT: Final = "memoryhub.erasure.plan"  # noqa: S105 # a name, no secret

Scope, State = Erasure.Scope, Erasure.State
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


def plan(
    subject: Subject,
    *,
    scope: str,
    reason: str,
    actor: str,
    thread: Thread | None = None,
    before: datetime | None = None,
    seq: int | None = None,
    ticket: str | None = None,
    restrict: bool = False,
    request: PersonRequest | None = None,
) -> Erasure:
    """Count what would go and keep that for 15 minutes. Nothing of the memory changes.

    With `restrict` agents are kept out until the plan is confirmed or expires, so that
    it can't grow stale. Raises InvalidError, ErasureInProgressError while another one
    of the subject is open, SubjectErasedError, ThreadErasedError, SeqUnknownError;
    InProgressError too for a `request` served meanwhile, which is noted beside it.
    """
    wish = Wish(
        scope=scope,
        reason=reason,
        thread=thread,
        before=before,
        seq=seq,
        ticket=ticket,
        restrict=restrict,
    )
    check(wish, subject=subject, now=clock.now())
    journal.run(partial(_make_room, subject.id, actor))
    # Not in the writer, which others wait for: whether it still holds is seen later.
    # But who is kept out is so from the count on, or not at all.
    draft = None if restrict else drafted(Subject.objects.get(id=subject.id), wish)
    insert = partial(_insert, subject.id, wish, draft, actor, request)
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
    whole = row.scope == Scope.SUBJECT
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
    defect = ""
    try:
        waiting = _with_room(partial(_STEPS[row.state], row))
    except Refusal as failure:
        # Whatever it is, it is this one's alone: no other waits for it.
        log.warning("erasure.waits", code=failure.code, state=row.state)
        defect = journal.name_defect(failure)
        waiting = "broken" if defect else "disk" if _full() else "store"
    if waiting and (waiting, defect) != (row.waiting_on, row.defect):
        journal.run(partial(_note_waiting, row.id, row.state, waiting, defect))
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


def stall(erasure: Erasure, failure: Exception) -> None:
    """Note that a step of the erasure failed: by an outage, or by a defect of ours."""
    defect = journal.name_defect(failure)
    word = "broken" if defect else "store"
    journal.run(partial(_note_waiting, erasure.id, erasure.state, word, defect))


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


def check(wish: Wish, *, subject: Subject, now: datetime) -> None:
    """Raise InvalidError or another Refusal for what can't be meant."""
    if wish.scope not in Scope.values:
        raise InvalidError(loc="scope")
    require_reason(wish.reason, wish.ticket)
    for loc, given, scopes in (
        ("thread", wish.thread, (Scope.THREAD, Scope.RECORD)),
        ("before", wish.before, (Scope.BEFORE,)),
        ("record", wish.seq, (Scope.RECORD,)),
    ):
        if (given is not None) != (wish.scope in scopes):
            code = "missing" if given is None else "value"
            raise InvalidError(code=code, loc=loc)
    if wish.before is not None:
        _require_past(wish.before, now=now)
    _require_thread(wish, subject)


def require_reason(reason: str, ticket: str | None) -> None:
    """Raise InvalidError unless both are words that may be kept."""
    if reason not in REASONS:
        raise InvalidError(loc="reason")
    if ticket is not None and not TICKET.fullmatch(ticket):
        raise InvalidError(loc="ticket", allowed=TICKET_RULE)


def require_token(row: Erasure, given: str) -> None:
    """Raise InvalidError unless it is the plan's."""
    if not hmac.compare_digest(token(row).encode(), given.encode()):
        raise InvalidError(loc="plan_token", allowed="the token of this plan")


def token(row: Erasure) -> str:
    """Return what confirms just this plan: HMAC-SHA256 under a key of SECRET_KEY's."""
    planned, targets = as_confirmed(row.planned), as_confirmed(row.targets)
    says = (row.id, row.scope, row.epoch, planned, targets, row.expires_at)
    signed = orjson.dumps([str(each) for each in says])
    return salted_hmac(_TOKEN_SALT, signed, algorithm="sha256").hexdigest()


def build_row(owner: Subject, wish: Wish, draft: Draft, actor: str) -> Erasure:
    """Make the row of a plan, which the caller stores."""
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
        planned=text(draft.planned),
        targets=text(draft.targets),
        created_at=now,
        expires_at=now + VALID,
        updated_at=now,
    )


def renew(row: Erasure, draft: Draft, subject: Subject) -> None:
    """Put a fresh plan in the place of one that is stale; call it in a transaction."""
    now = clock.now()
    row.planned, row.targets = (
        text(draft.planned),
        text(draft.targets),
    )
    row.epoch, row.expires_at, row.updated_at = subject.epoch, now + VALID, now
    row.save(update_fields=["planned", "targets", "epoch", "expires_at", "updated_at"])


def expire(row: Erasure, *, actor: str) -> None:
    """End a plan that nobody may confirm any more; call it in a transaction."""
    erasure_steps.enter(row, State.EXPIRED, actor=actor)
    erasure_steps.lift(row, actor=actor)


def _make_room(subject: UUID, actor: str) -> None:
    """Let one go that can't be confirmed any more."""
    with transaction.atomic():
        row = Subject.objects.select_for_update().get(id=subject)
        require_subject(row)
        prior = Erasure.objects.exclude(state__in=CLOSED).filter(subject=row).first()
        if prior is not None:
            _require_over(prior)
            expire(prior, actor=actor)


def _require_over(prior: Erasure) -> None:
    """Raise ErasureInProgressError unless the open one is as good as closed."""
    now = clock.now()
    waited = (
        prior.state == State.HELD and not in_force(prior.subject_id, now=now).exists()
    )
    planned = prior.state == State.PLANNED and prior.confirmed_at is None
    if not waited and not (planned and prior.expires_at <= now):
        raise ErasureInProgressError(erasure=str(prior.id))


def _insert(
    subject: UUID,
    wish: Wish,
    draft: Draft | None,
    actor: str,
    request: PersonRequest | None,
) -> Erasure:
    """Keep the plan, and agents out if that was asked for: both or neither."""
    try:
        with transaction.atomic():
            owner = Subject.objects.select_for_update().get(id=subject)
            require_subject(owner)
            row = build_row(owner, wish, draft or drafted(owner, wish), actor)
            row.save(force_insert=True)
            requests.claim(request, subject=owner.id, erasure=row.id)
            erasure_steps.enter(row, State.PLANNED, actor=actor)
            if wish.restrict:
                erasure_steps.restrict(row, basis=PLANNED, actor=actor)
    except IntegrityError:
        # Somebody else's plan was faster.
        raise ErasureInProgressError from None
    return row


def _require_past(before: datetime, *, now: datetime) -> None:
    if before.tzinfo is None or before.year < _FIRST_YEAR or before > now:
        raise InvalidError(
            code="time_range", loc="before", allowed="a time that is past, since 1970"
        )


def _require_thread(wish: Wish, subject: Subject) -> None:
    thread = wish.thread
    if thread is None:
        return
    if thread.subject_id != subject.id:
        raise InvalidError(loc="thread", allowed="a thread of this subject")
    if thread.status == Thread.Status.ERASED:
        raise ThreadErasedError
    if wish.seq is not None and not 1 <= wish.seq <= thread.head_seq:
        raise SeqUnknownError


def _confirmed(erasure: UUID, confirmation: Confirmation) -> Refusal | None:
    """Decide, with the memory standing still; what is refused may be noted as well."""
    with erasure_steps.locked(erasure) as (row, owner):
        require_token(row, confirmation.token)
        if row.confirmed_at is not None:
            return None
        if row.state in CLOSED:
            return PlanExpiredError()
        line = ErasureLine.of(row)
        if confirmation.count != line.count:
            return CountMismatchError()
        if line.expires_at <= clock.now():
            expire(row, actor=confirmation.actor)
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
        erasure_steps.hold_back(row, actor=confirmation.actor)
        requests.claim(confirmation.request, subject=owner.id, erasure=row.id)
        return None
    draft = drafted(owner, wish_of(row))
    if owner.epoch != row.epoch or draft.moved(row):
        renew(row, draft, owner)
        return PlanStaleError(erasure=str(row.id))
    row.actor, row.confirmed_at, row.updated_at = confirmation.actor, now, now
    row.save(update_fields=["actor", "confirmed_at", "updated_at"])
    requests.claim(confirmation.request, subject=owner.id, erasure=row.id)
    if row.scope == Scope.SUBJECT:
        # Until the fence, which waits for the ledger's disk, nobody slips in.
        erasure_steps.restrict(row, basis=PLANNED, actor=confirmation.actor)
    return None


def _cancelled(
    erasure: UUID, *, actor: str, request: PersonRequest | None = None
) -> Erasure:
    with erasure_steps.locked(erasure) as (row, _):
        if row.state == State.CANCELLED:
            return row
        if row.state == State.EXPIRED:
            raise PlanExpiredError
        held = row.state == State.HELD
        if not held and row.confirmed_at is not None:
            raise AlreadyFencedError
        requests.claim(request, subject=row.subject_id, erasure=row.id)
        erasure_steps.enter(row, State.CANCELLED, actor=actor)
        erasure_steps.lift(row, actor=actor)
    return row


def _kept_out(erasure: UUID, *, actor: str) -> Erasure:
    with erasure_steps.locked(erasure) as (row, owner):
        if row.state in CLOSED or row.expires_at <= clock.now():
            raise PlanExpiredError
        if row.state != State.PLANNED or row.confirmed_at is not None:
            raise AlreadyFencedError
        if not row.restrict:
            row.restrict = True
            row.save(update_fields=["restrict"])
            erasure_steps.restrict(row, basis=PLANNED, actor=actor)
            draft = drafted(owner, wish_of(row))
            renew(row, draft, owner)
    return row


def _expired(erasure: UUID) -> bool:
    with erasure_steps.locked(erasure) as (row, _):
        planned = row.state == State.PLANNED and row.confirmed_at is None
        if not planned and row.state != State.HELD:
            return False
        expire(row, actor="worker:erasures")
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
        raise ForgetBudgetError(retry_after_seconds=seconds, max_per_day=A_DAY)


def _note_waiting(erasure: UUID, state: str, word: str, defect: str) -> None:
    rows = Erasure.objects.filter(id=erasure, state=state)
    rows.update(waiting_on=word, defect=defect[:64], updated_at=clock.now())


def _with_room(work: Callable[[], Any]) -> Any:
    """Do it, a second time with the ballast gone if there was no room for it."""
    try:
        return work()
    except (UnavailableError, DatabaseError, OSError) as failure:
        if not (_full() and ballast.release()):
            if isinstance(failure, UnavailableError):
                raise
            unavailable = UnavailableError()
            unavailable.defect = journal.name_defect(failure)
            raise unavailable from None
    return work()


def _full() -> bool:
    return shutil.disk_usage(settings.DATA_DIR).free < _ROOM_BYTES
