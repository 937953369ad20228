from __future__ import annotations

from datetime import timedelta
from functools import partial

import orjson
import pytest
from django.utils import timezone

from memoryhub.errors import (
    ErasureInProgressError,
    LedgerUnwritableError,
    SubjectRestrictedError,
)
from memoryhub.models import Membership
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.erasures import Erasure, Hold, Receipt
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasure_steps, erasures, ledgers
from memoryhub.services.people import holds, subjects
from memoryhub.services.scan import collecting
from memoryhub.vault.proof import ledger
from memoryhub.vault.scan.targets import ScanTarget, TargetKind
from tests.cast.factories import append, get_thread, make_thread
from tests.cast.forgetting import plan

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture
def ann(agent: Agent) -> Subject:
    for user_id in ("ann", "bob"):
        make_thread(agent, f"{user_id}-1", user_id=user_id)
        append(agent, f"{user_id}-1", "I would like seat 12A, please.", "And a meal.")
    return subjects.find_or_create(agent.project, "ann")


def confirmed(subject: Subject, scope: str = "subject", **given: object) -> Erasure:
    """Confirmed, but not fenced: as after a crash between the two."""
    row = plan(subject, scope, **given)
    Erasure.objects.filter(id=row.id).update(confirmed_at=timezone.now())
    return Erasure.objects.select_related("subject", "thread").get(id=row.id)


def until(row: Erasure, state: str) -> Erasure:
    while row.state != state:
        before = row.state
        row = erasures.advance(row)
        assert row.state != before, row.waiting_on
    return row


def sealed(name: str) -> int:
    return Event.objects.filter(thread__name=name, payload__isnull=False).count()


def test_the_ledger_says_it_before_the_fence(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = confirmed(ann)
    seen: list[str] = []
    intend = ledgers.intend

    def told(erasure: Erasure) -> ledger.Line:
        seen.append(Subject.objects.get(id=ann.id).state)
        return intend(erasure)

    monkeypatch.setattr(ledgers, "intend", told)
    until(row, State.FENCED)
    assert seen == ["active"]
    assert [line.erasure for line in ledger.lines()] == [row.id]


def test_a_ledger_that_can_not_be_written_is_waited_for(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is erased, and agents go on; it is taken up again by itself."""
    row = confirmed(ann)

    def refuse(_: Erasure) -> ledger.Line:
        raise LedgerUnwritableError

    monkeypatch.setattr(ledgers, "intend", refuse)
    row = erasures.advance(row)
    assert (row.state, row.waiting_on) == (State.PLANNED, "store")
    assert Subject.objects.get(id=ann.id).state == "active"
    monkeypatch.undo()
    row = erasures.advance(row)
    assert (row.state, row.waiting_on) == (State.FENCED, "")


@pytest.mark.parametrize("scope", ["subject", "thread"])
def test_a_hold_that_came_meanwhile_needs_a_fresh_plan(
    agent: Agent, ann: Subject, scope: str
) -> None:
    """As on paper: nothing goes, agents are kept out, and what is lifted is planned."""
    given = {"thread": get_thread(agent, "ann-1")} if scope == "thread" else {}
    row = confirmed(ann, scope, **given)
    hold = Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="legal_duty",
        opened_by="command",
        opened_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=30),
    )
    row = erasures.advance(row)
    assert (row.state, row.waiting_on) == (State.HELD, "hold")
    with pytest.raises(SubjectRestrictedError):
        append(agent, "ann-1", "Kept out.")
    append(agent, "bob-1", "Let in.")
    assert list(ledger.lines()) == []
    assert erasures.advance(row).state == State.HELD
    hold.delete()
    assert erasures.tidy() == 1
    row.refresh_from_db()
    assert row.state == State.EXPIRED
    append(agent, "ann-1", "Let in again.")
    assert sealed("ann-1") == 3
    assert until(confirmed(ann, scope, **given), State.COMPLETE).ledger_n == 1


@pytest.mark.parametrize("scope", ["subject", "thread"])
def test_no_hold_comes_after_what_is_final(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    """It is confirmed, and waits for the ledger's disk."""
    vera = operators.add("vera")
    operators.set_role(ann.project, vera, Membership.Role.OFFICER)
    hold = partial(
        holds.open_hold,
        basis="archiving",
        reviewer=vera,
        expires_at=timezone.now() + timedelta(days=1),
        actor="command",
    )
    given = {"thread": get_thread(agent, "ann-1")} if scope == "thread" else {}
    row = confirmed(ann, scope, **given)
    with pytest.raises(ErasureInProgressError):
        hold(ann)
    hold(subjects.find_or_create(agent.project, "bob"))
    until(row, State.COMPLETE)
    if scope == "thread":
        # What is left of hers may be held again.
        hold(ann)
    assert Hold.objects.filter(subject=ann).count() == (scope == "thread")


def test_what_the_ledger_has_promised_no_hold_of_a_backup_keeps(
    agent: Agent, ann: Subject
) -> None:
    row = confirmed(ann, "thread", thread=get_thread(agent, "ann-1"))
    ledgers.intend(row)
    Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="legal_duty",
        opened_by="command",
        opened_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=30),
    )
    assert until(row, State.TOMBSTONED).ledger_n == 1


def test_whom_to_tell_is_noted_before_it_is_forgotten(
    agent: Agent, ann: Subject
) -> None:
    DailyUse.objects.create(
        subject=ann, day=timezone.now().date(), key_id=agent.key, reads=3
    )
    row = until(confirmed(ann), State.COMPLETE)
    assert not DailyUse.objects.filter(subject=ann).exists()
    receipt = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert receipt["recipients"] == [f"key:{agent.prefix}"]


def test_what_is_found_stops_it(ann: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: a needle that stands in our own words, hence in the database."""
    row = until(confirmed(ann), State.SCRUBBED)
    found = ScanTarget(kind=TargetKind.PLAINTEXT, data=b"caches_purged")
    monkeypatch.setattr(collecting, "list_targets", lambda _: [found])
    row = erasures.advance(row)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")
    assert orjson.loads(row.verification)["undeclared"] > 0
    assert not Receipt.objects.exists()
    monkeypatch.undo()
    assert until(row, State.COMPLETE).waiting_on == ""


def test_what_was_written_beside_the_fence_goes_as_well(
    agent: Agent, ann: Subject
) -> None:
    row = until(confirmed(ann), State.SCRUBBED)
    thread = ann.threads.get()
    # As by somebody who goes round every lock there is.
    DailyUse.objects.create(
        subject=ann, day=timezone.now().date(), key_id=agent.key, reads=1
    )
    row = erasures.advance(row)
    assert row.state == State.KEY_DESTROYED
    row = until(row, State.COMPLETE)
    assert not DailyUse.objects.filter(subject=ann).exists()
    assert Event.objects.filter(thread=thread, payload__isnull=False).count() == 0
    assert sealed("bob-1") == 2


def test_states_have_an_order() -> None:
    states = [
        *(State.PLANNED, State.FENCED, State.KEY_DESTROYED, State.ROWS_ERASED),
        *(State.CACHES_PURGED, State.SCRUBBED, State.VERIFIED, State.COMPLETE),
    ]
    for n, state in enumerate(states):
        row = Erasure(state=state)
        assert [erasure_steps.reached(row, each) for each in states] == [
            each <= n for each in range(len(states))
        ]
    for closed in (State.EXPIRED, State.CANCELLED):
        assert not erasure_steps.reached(Erasure(state=closed), State.PLANNED)
