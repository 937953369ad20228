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


def confirm_unfenced(
    subject: Subject, scope: str = "subject", **given: object
) -> Erasure:
    """Confirm a plan without fencing, as after a crash between the two steps."""
    row = plan(subject, scope, **given)
    Erasure.objects.filter(id=row.id).update(confirmed_at=timezone.now())
    return Erasure.objects.select_related("subject", "thread").get(id=row.id)


def advance_until(row: Erasure, state: str) -> Erasure:
    while row.state != state:
        before = row.state
        row = erasures.advance_erasure(row)
        assert row.state != before, row.waiting_on
    return row


def count_sealed(name: str) -> int:
    return Event.objects.filter(thread__name=name, payload__isnull=False).count()


def test_ledger_line_is_written_before_the_fence(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = confirm_unfenced(ann)
    seen: list[str] = []
    intend = ledgers.record_intent

    def told(erasure: Erasure) -> ledger.LedgerLine:
        seen.append(Subject.objects.get(id=ann.id).state)
        return intend(erasure)

    monkeypatch.setattr(ledgers, "record_intent", told)
    advance_until(row, State.FENCED)
    assert seen == ["active"]
    assert [line.erasure for line in ledger.iter_lines()] == [row.id]


def test_erasure_waits_for_an_unwritable_ledger(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erase nothing and let agents go on, until the ledger is writable again."""
    row = confirm_unfenced(ann)

    def refuse(_: Erasure) -> ledger.LedgerLine:
        raise LedgerUnwritableError

    monkeypatch.setattr(ledgers, "record_intent", refuse)
    row = erasures.advance_erasure(row)
    assert (row.state, row.waiting_on) == (State.PLANNED, "store")
    assert Subject.objects.get(id=ann.id).state == "active"
    monkeypatch.undo()
    row = erasures.advance_erasure(row)
    assert (row.state, row.waiting_on) == (State.FENCED, "")


@pytest.mark.parametrize("scope", ["subject", "thread"])
def test_hold_opened_after_confirmation_needs_a_fresh_plan(
    agent: Agent, ann: Subject, scope: str
) -> None:
    """Keep agents out and erase nothing; once the hold is lifted, plan anew."""
    given = {"thread": get_thread(agent, "ann-1")} if scope == "thread" else {}
    row = confirm_unfenced(ann, scope, **given)
    hold = Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="legal_duty",
        opened_by="command",
        opened_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=30),
    )
    row = erasures.advance_erasure(row)
    assert (row.state, row.waiting_on) == (State.HELD, "hold")
    with pytest.raises(SubjectRestrictedError):
        append(agent, "ann-1", "Kept out.")
    append(agent, "bob-1", "Let in.")
    assert list(ledger.iter_lines()) == []
    assert erasures.advance_erasure(row).state == State.HELD
    hold.delete()
    assert erasures.close_due() == 1
    row.refresh_from_db()
    assert row.state == State.EXPIRED
    append(agent, "ann-1", "Let in again.")
    assert count_sealed("ann-1") == 3
    assert (
        advance_until(confirm_unfenced(ann, scope, **given), State.COMPLETE).ledger_n
        == 1
    )


@pytest.mark.parametrize("scope", ["subject", "thread"])
def test_hold_is_refused_once_the_erasure_is_confirmed(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    """Refuse the hold while the confirmed erasure waits for the ledger's disk."""
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
    row = confirm_unfenced(ann, scope, **given)
    with pytest.raises(ErasureInProgressError):
        hold(ann)
    hold(subjects.find_or_create(agent.project, "bob"))
    advance_until(row, State.COMPLETE)
    if scope == "thread":
        # The subject's remaining memory may be held again.
        hold(ann)
    assert Hold.objects.filter(subject=ann).count() == (scope == "thread")


def test_restored_hold_does_not_stop_an_erasure_in_the_ledger(
    agent: Agent, ann: Subject
) -> None:
    row = confirm_unfenced(ann, "thread", thread=get_thread(agent, "ann-1"))
    ledgers.record_intent(row)
    Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="legal_duty",
        opened_by="command",
        opened_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=30),
    )
    assert advance_until(row, State.TOMBSTONED).ledger_n == 1


def test_receipt_names_recipients_whose_use_rows_are_erased(
    agent: Agent, ann: Subject
) -> None:
    DailyUse.objects.create(
        subject=ann, day=timezone.now().date(), key_id=agent.key, reads=3
    )
    row = advance_until(confirm_unfenced(ann), State.COMPLETE)
    assert not DailyUse.objects.filter(subject=ann).exists()
    receipt = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert receipt["recipients"] == [f"key:{agent.prefix}"]


def test_found_plaintext_stops_the_erasure(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search for one of our own words, which the database does hold, as a control."""
    row = advance_until(confirm_unfenced(ann), State.SCRUBBED)
    found = ScanTarget(kind=TargetKind.PLAINTEXT, data=b"caches_purged")
    monkeypatch.setattr(collecting, "list_targets", lambda _: [found])
    row = erasures.advance_erasure(row)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")
    assert orjson.loads(row.verification)["undeclared"] > 0
    assert not Receipt.objects.exists()
    monkeypatch.undo()
    assert advance_until(row, State.COMPLETE).waiting_on == ""


def test_row_written_beside_the_fence_is_erased_too(agent: Agent, ann: Subject) -> None:
    row = advance_until(confirm_unfenced(ann), State.SCRUBBED)
    thread = ann.threads.get()
    # Write a row around every lock.
    DailyUse.objects.create(
        subject=ann, day=timezone.now().date(), key_id=agent.key, reads=1
    )
    row = erasures.advance_erasure(row)
    assert row.state == State.KEY_DESTROYED
    row = advance_until(row, State.COMPLETE)
    assert not DailyUse.objects.filter(subject=ann).exists()
    assert Event.objects.filter(thread=thread, payload__isnull=False).count() == 0
    assert count_sealed("bob-1") == 2


def test_erasure_states_have_an_order() -> None:
    states = [
        *(State.PLANNED, State.FENCED, State.KEY_DESTROYED, State.ROWS_ERASED),
        *(State.CACHES_PURGED, State.SCRUBBED, State.VERIFIED, State.COMPLETE),
    ]
    for n, state in enumerate(states):
        row = Erasure(state=state)
        assert [erasure_steps.has_reached(row, each) for each in states] == [
            each <= n for each in range(len(states))
        ]
    for closed in (State.EXPIRED, State.CANCELLED):
        assert not erasure_steps.has_reached(Erasure(state=closed), State.PLANNED)
