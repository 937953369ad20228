"""Plans: what an erasure would take, counted beforehand and signed for 15 minutes.

A dry run: nothing of the memory changes. Only who has the plan's token can confirm it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import IntegrityError, transaction
from django.utils.crypto import salted_hmac

from memoryhub import journal
from memoryhub.errors import (
    ErasureInProgressError,
    InvalidError,
    SeqUnknownError,
    ThreadErasedError,
)
from memoryhub.journal import audit
from memoryhub.journal.forget import purging
from memoryhub.journal.log import requests
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.kernel.state.erase_events import REASONS
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_counts, erasure_targets
from memoryhub.queries.forget.erasures import CLOSED
from memoryhub.queries.forget.holds import in_force
from memoryhub.queries.people import recipients
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.people import restrictions
from memoryhub.services.people.restrictions import HELD, PLANNED

VALID: Final = timedelta(minutes=15)
TICKET: Final = re.compile(r"[A-Z]{1,8}-[0-9]{1,7}")
TICKET_RULE: Final = "1 to 8 capital letters, `-`, 1 to 7 digits"
_FIRST_YEAR: Final = 1970
_TOKEN_SALT: Final = "memoryhub.erasure.plan"  # noqa: S105 # a name, no secret

Scope, State = Erasure.Scope, Erasure.State


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be forgotten, and why. `check` says whether it can be meant."""

    scope: str
    reason: str
    thread: Thread | None = None
    before: datetime | None = None
    seq: int | None = None
    ticket: str | None = None
    restrict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a plan says, freshly counted."""

    planned: Mapping[str, Any]
    targets: Mapping[str, Any]

    def moved(self, row: Erasure) -> bool:
        """Tell whether the plan that was stored says anything else that matters."""
        before = orjson.loads(row.planned)
        if _lasting(before) != _lasting(self.planned):
            return True
        if row.scope not in (Scope.SUBJECT, Scope.THREAD):
            return False
        heads: Any = orjson.loads(row.targets)["heads"]
        return bool(heads != self.targets["heads"])


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


def drafted(subject: Subject, wish: Wish) -> Draft:
    """Return the plan as it is now. A query for each place, and the closure's."""
    scope = wish.scope
    of = partial(erasure_targets.targets, subject, scope, reason=wish.reason)
    targets = of(thread=wish.thread, before=wish.before, seq=wish.seq)
    touched = erasure_targets.threads_of(targets)
    # What they read through stays; of a whole subject nothing does.
    whole = scope == Scope.SUBJECT
    forks = set[UUID]() if whole else purging.folding_through(touched) - touched
    counts = erasure_targets.count(subject.id, scope, targets)
    methods = erasure_counts.get_methods(scope)
    planned = {
        "count": sum(found.goes for found in counts.values()),
        "places": {
            name: {"erase": found.goes, "method": methods[name], **found.kept}
            for name, found in counts.items()
        },
        "threads": len(touched),
        "forks": len(forks),
        "unlinked": erasure_closures.count_unlinked(erasure_targets.ranges_of(targets)),
        "holds": in_force(subject.id, now=clock.now()).count(),
        "residue": [*erasure_targets.iter_residue(scope, forked=bool(forks))],
    }
    return Draft(planned=planned, targets=targets)


def count_left(row: Erasure) -> dict[str, int]:
    """Count what of an erasure's targets still holds something, by place."""
    targets = orjson.loads(row.targets)
    found = erasure_targets.count(row.subject_id, row.scope, targets)
    return {name: each.goes for name, each in found.items()}


def wish_of(row: Erasure) -> Wish:
    """Return what was asked for when the plan was made."""
    return Wish(
        scope=row.scope,
        reason=row.reason,
        thread=row.thread,
        before=row.before,
        seq=row.seq,
        ticket=row.ticket,
        restrict=row.restrict,
    )


def token(row: Erasure) -> str:
    """Return what confirms just this plan: HMAC-SHA256 under a key of SECRET_KEY's."""
    planned, targets = _as_confirmed(row.planned), _as_confirmed(row.targets)
    says = (row.id, row.scope, row.epoch, planned, targets, row.expires_at)
    signed = orjson.dumps([str(each) for each in says])
    return salted_hmac(_TOKEN_SALT, signed, algorithm="sha256").hexdigest()


def renew(row: Erasure, draft: Draft, subject: Subject) -> None:
    """Put a fresh plan in the place of one that is stale; call it in a transaction."""
    now = clock.now()
    row.planned, row.targets = text(draft.planned), text(draft.targets)
    row.epoch, row.expires_at, row.updated_at = subject.epoch, now + VALID, now
    row.save(update_fields=["planned", "targets", "epoch", "expires_at", "updated_at"])


def freeze(row: Erasure, subject: Subject) -> None:
    """Put what there is now in the place of what was planned, for good.

    Under the subject's lock, in the transaction of the fence: nobody adds to it from
    here on. The counts that were confirmed stay beside it, and whom to tell.
    """
    draft, before = drafted(subject, wish_of(row)), orjson.loads(row.planned)
    places, fenced = {}, {}
    for name, line in draft.planned["places"].items():
        confirmed = before["places"].get(name, {"erase": 0})
        places[name] = {**line, "erase": confirmed["erase"]}
        fenced[name] = {"fenced": line["erase"], "erased": 0}
    row.erased = text(fenced)
    frozen = {
        "count": before["count"],
        "places": places,
        "confirmed": _as_confirmed(row.planned),
        "recipients": recipients.list_recipients(subject.id),
    }
    row.planned = text({**draft.planned, **frozen})
    row.targets = text({**draft.targets, "confirmed": _as_confirmed(row.targets)})
    row.save(update_fields=["planned", "targets", "erased"])


def enter(row: Erasure, state: str, *, actor: str, **changes: Any) -> None:
    """Note that the state is true now; call it in the transaction that makes it so.

    The audit log is told last, for its row is one that everybody waits for.
    """
    now = clock.now()
    times = {**orjson.loads(row.times), str(state): now.isoformat()}
    changes = {"waiting_on": "", **changes, "state": state, "updated_at": now}
    for name, value in (*changes.items(), ("times", text(times))):
        setattr(row, name, value)
    row.save(update_fields=[*changes, "times"])
    audit.append(
        actor=actor,
        action=f"erasure.{state}",
        project=row.project_id,
        target_kind="erasure",
        target_id=str(row.id),
        subject=row.subject_id,
        count=orjson.loads(row.planned).get("count", 0),
    )


def hold_back(row: Erasure, *, actor: str) -> None:
    """Note that a hold forbids it, and keep agents out; call it in a transaction."""
    at = row.confirmed_at or clock.now()
    more = {"waiting_on": "hold", "confirmed_at": at, "restrict": True}
    enter(row, State.HELD, actor=actor, **more)
    restrict(row, basis=HELD, actor=actor)


def expire(row: Erasure, *, actor: str) -> None:
    """End a plan that nobody may confirm any more; call it in a transaction."""
    enter(row, State.EXPIRED, actor=actor)
    lift(row, actor=actor)


def lift(row: Erasure, *, actor: str) -> None:
    """End the restriction that the plan or a hold against it brought; others stay."""
    rows = Subject.objects.filter(id=row.subject_id, state=Subject.State.RESTRICTED)
    rows = rows.filter(basis__in=(PLANNED, HELD))
    if rows.update(state=Subject.State.ACTIVE, basis=""):
        _audit("subject.unrestricted", row, actor)


def restrict(row: Erasure, *, basis: str, actor: str) -> None:
    """Keep agents out for as long as the plan waits; a restriction of its own stays."""
    rows = Subject.objects.filter(id=row.subject_id, state=Subject.State.ACTIVE)
    if rows.update(state=Subject.State.RESTRICTED, basis=basis):
        _audit("subject.restricted", row, actor)


def _audit(action: str, row: Erasure, actor: str) -> None:
    restrictions.audit_act(action, row.subject_id, project=row.project_id, actor=actor)


def text(value: Mapping[str, Any]) -> str:
    """JSON as the columns of an erasure have it: the same for the same values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _as_confirmed(stored: str) -> str:
    """Return the digest of it as it was confirmed: the fence has counted anew since."""
    plain: dict[str, Any] = orjson.loads(stored)
    digest: str = plain.get("confirmed", "")
    return digest or hashlib.sha256(text(plain).encode()).hexdigest()


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
            enter(row, State.PLANNED, actor=actor)
            if wish.restrict:
                restrict(row, basis=PLANNED, actor=actor)
    except IntegrityError:
        # Somebody else's plan was faster.
        raise ErasureInProgressError from None
    return row


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


def _lasting(planned: Mapping[str, Any]) -> Any:
    """Return what of a plan does not change by itself."""
    passing = erasure_counts.get_passing()
    places = {
        name: place
        for name, place in planned.get("places", {}).items()
        if name not in passing
    }
    return places, planned.get("forks")
