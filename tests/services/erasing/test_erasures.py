from __future__ import annotations

from datetime import timedelta

import orjson
import pytest
import time_machine
from django.utils import timezone

from memoryhub.errors import (
    AlreadyFencedError,
    CountMismatchError,
    ForgetBudgetError,
    InvalidError,
    NothingToEraseError,
    PlanExpiredError,
    PlanStaleError,
    SubjectErasedError,
    SubjectRestrictedError,
)
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure, Hold, Receipt, Tombstone
from memoryhub.models.keys import DestroyedKey, SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import (
    erasure_steps,
    erasures,
)
from memoryhub.services.people import subjects
from memoryhub.vault.proof import ledger
from tests.cast import readers
from tests.cast.factories import append, get_thread, make_agent
from tests.cast.forgetting import (
    TEXT,
    confirm,
    finish,
    get_subject,
    list_records,
    make_person,
    plan,
)

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann", threads=2)


@pytest.fixture(autouse=True)
def bob(agent: Agent) -> Subject:
    """Make the twin: the same texts of another subject, which must all stay."""
    return make_person(agent, "bob")


def test_subject_is_erased_and_gets_a_receipt(
    agent: Agent, ann: Subject, bob: Subject
) -> None:
    before = list_records(bob)
    row = confirm(plan(ann))
    assert row.state == State.FENCED
    with pytest.raises(SubjectErasedError):
        append(agent, "ann-1", "Too late.")
    row = finish(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    gone = Subject.objects.get(id=ann.id)
    assert (gone.state, gone.subject_ref, gone.external_id) == ("erased", None, None)
    assert gone.epoch == ann.epoch + 1
    assert not any(erasure_counts.count_subject(ann.id).values())
    assert not SubjectKey.objects.using("keys").filter(subject=ann.id).exists()
    assert DestroyedKey.objects.using("keys").get(subject=ann.id).erasure == row.id
    assert Tombstone.objects.filter(subject=ann, kind="subject").count() == 1
    with pytest.raises(SubjectErasedError):
        subjects.find_or_create(agent.project, "ann")
    assert list_records(bob) == before
    append(agent, "bob-1", "I am still here.")


def test_erased_counts_equal_fenced_counts(ann: Subject) -> None:
    row = confirm(plan(ann))
    planned = {
        each.place: each.erase
        for each in ErasureLine.from_row(row).places
        if each.erase
    }
    row = finish(row)
    line = ErasureLine.from_row(row)
    assert {p.place: p.fenced for p in line.places if p.fenced} == planned
    assert {p.place: p.erased for p in line.places if p.erased} == planned
    receipt = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert receipt["planned"] == receipt["fenced"] == planned
    assert {n: e["count"] for n, e in receipt["erased"].items() if e["count"]} == (
        planned
    )


def test_each_erasure_state_is_entered_in_turn_and_audited(ann: Subject) -> None:
    row = finish(confirm(plan(ann)))
    states = [
        *("planned", "fenced", "key_destroyed", "rows_erased", "caches_purged"),
        *("scrubbed", "verified", "complete"),
    ]
    times = orjson.loads(row.times)
    assert sorted(times, key=times.__getitem__) == states
    told = AuditEntry.objects.filter(action__startswith="erasure.").order_by("seq")
    assert [each.action for each in told] == [f"erasure.{state}" for state in states]
    kinds = [line.kind for line in ledger.iter_lines() if line.erasure == row.id]
    assert kinds == ["intent", "done"]


def test_every_erasure_step_may_be_taken_twice(ann: Subject, bob: Subject) -> None:
    before = list_records(bob)
    row = confirm(plan(ann))
    while row.state != State.COMPLETE:
        seen = row.state
        row = erasures.advance_erasure(row)
        # An eraser that died after the work and before the state repeats the step.
        Erasure.objects.filter(id=row.id).update(state=seen)
        row = erasures.advance_erasure(row)
        assert row.state != seen
    assert Receipt.objects.filter(erasure=row).count() == 1
    assert list_records(bob) == before


def test_confirming_twice_is_one_erasure(ann: Subject) -> None:
    row = plan(ann)
    first, second = confirm(row), confirm(row)
    assert first.id == second.id
    done = finish(row)
    assert confirm(row).state == done.state == State.COMPLETE


def test_wrong_token_or_count_confirms_nothing(ann: Subject, bob: Subject) -> None:
    row, other = plan(ann), plan(bob)
    for token in ("", "0" * 64, erasures.build_token(other)):
        with pytest.raises(InvalidError):
            erasures.confirm(row, token=token, count=1, actor="command")
    count = ErasureLine.from_row(row).count
    for wrong in (0, count - 1, count + 1):
        with pytest.raises(CountMismatchError):
            erasures.confirm(
                row, token=erasures.build_token(row), count=wrong, actor="command"
            )
    assert Erasure.objects.get(id=row.id).confirmed_at is None
    assert list(ledger.iter_lines()) == []


def test_empty_plan_can_not_be_confirmed(ann: Subject) -> None:
    row = plan(ann, "before", before=timezone.now() - timedelta(days=900))
    with pytest.raises(NothingToEraseError):
        confirm(row)


def test_expired_plan_can_not_be_confirmed(ann: Subject) -> None:
    row = plan(ann)
    with time_machine.travel(row.expires_at), pytest.raises(PlanExpiredError):
        confirm(row)
    assert Erasure.objects.get(id=row.id).state == State.EXPIRED
    with pytest.raises(PlanExpiredError):
        confirm(row)


def test_stale_plan_is_counted_anew(agent: Agent, ann: Subject) -> None:
    row = plan(ann)
    old = erasures.build_token(row)
    append(agent, "ann-1", "One more thing.")
    with pytest.raises(PlanStaleError):
        confirm(row)
    fresh = Erasure.objects.get(id=row.id)
    assert ErasureLine.from_row(fresh).count > ErasureLine.from_row(row).count
    with pytest.raises(InvalidError):
        erasures.confirm(fresh, token=old, count=1, actor="command")
    assert confirm(fresh).state == State.FENCED


def test_write_of_another_subject_makes_no_plan_stale(
    agent: Agent, ann: Subject
) -> None:
    row = plan(ann)
    append(agent, "bob-1", "Nothing to do with her.")
    assert confirm(row).state == State.FENCED


def test_plan_is_cancelled_but_not_a_fenced_erasure(agent: Agent, ann: Subject) -> None:
    row = plan(ann, restrict=True)
    assert erasures.cancel(row, actor="command").state == State.CANCELLED
    assert erasures.cancel(row, actor="command").state == State.CANCELLED
    append(agent, "ann-1", "Agents are let in again.")
    with pytest.raises(PlanExpiredError):
        confirm(row)
    begun = confirm(plan(get_subject(agent, "ann")))
    with pytest.raises(AlreadyFencedError):
        erasures.cancel(begun, actor="command")


def test_plan_is_counted_anew_once_agents_are_kept_out(
    agent: Agent, ann: Subject
) -> None:
    row, twin = plan(ann), get_thread(agent, "bob-1")
    append(agent, "ann-1", "Nobody has counted this yet.")
    assert Subject.objects.get(id=ann.id).state == "active"
    fresh = erasures.keep_out(row, actor="operator:carol")
    assert fresh.id == row.id
    assert ErasureLine.from_row(fresh).count > ErasureLine.from_row(row).count
    assert erasures.build_token(fresh) != erasures.build_token(row)
    with pytest.raises(SubjectRestrictedError):
        append(agent, "ann-1", "Too late for this one.")
    append(agent, twin.name, "Of somebody else.")
    again = erasures.keep_out(fresh, actor="operator:carol")
    assert erasures.build_token(again) == erasures.build_token(fresh)
    told = AuditEntry.objects.filter(action="subject.restricted")
    assert told.count() == 1
    assert confirm(again).state == State.FENCED
    with pytest.raises(AlreadyFencedError):
        erasures.keep_out(again, actor="operator:carol")


def test_agents_are_not_kept_out_for_a_plan_that_is_over(
    agent: Agent, ann: Subject
) -> None:
    row = plan(ann)
    with (
        time_machine.travel(timezone.now() + timedelta(minutes=16)),
        pytest.raises(PlanExpiredError),
    ):
        erasures.keep_out(row, actor="command")
    erasures.cancel(row, actor="command")
    with pytest.raises(PlanExpiredError):
        erasures.keep_out(row, actor="command")
    append(agent, "ann-1", "Still let in.")


def test_held_subject_is_restricted_and_not_erased(agent: Agent, ann: Subject) -> None:
    row = plan(ann)
    hold = Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="legal_claims",
        opened_by="command",
        opened_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=30),
    )
    row = confirm(row)
    assert (row.state, row.waiting_on) == (State.HELD, "hold")
    with pytest.raises(SubjectRestrictedError):
        append(agent, "ann-1", "Am I held?")
    assert erasures.advance_erasure(row).state == State.HELD
    assert confirm(row).state == State.HELD
    assert list(ledger.iter_lines()) == []
    hold.lifted_at = timezone.now()
    hold.save(update_fields=["lifted_at"])
    # A held erasure is not resumed; the subject is planned anew.
    assert erasures.close_due() == 1
    assert Erasure.objects.get(id=row.id).state == State.EXPIRED
    append(agent, "ann-1", "No more.")
    told = AuditEntry.objects.filter(target_id=str(ann.id)).order_by("seq")
    assert [*told.values_list("action", "actor_kind")] == [
        ("subject.restricted", "command"),
        ("subject.unrestricted", "worker"),
    ]
    assert confirm(plan(get_subject(agent, "ann"))).state == State.FENCED


def test_api_key_confirms_a_limited_number_of_erasures_a_day(
    agent: Agent, ann: Subject, acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "A_DAY", 1)
    forgetter = make_agent(acme, scopes=("subject:forget",))
    confirm(plan(ann), forgetter.actor)
    row = plan(get_subject(agent, "bob"))
    with pytest.raises(ForgetBudgetError):
        confirm(row, forgetter.actor)
    with time_machine.travel(timezone.now() + timedelta(days=1)):
        fresh = Erasure.objects.get(id=row.id)
        with pytest.raises(PlanExpiredError):
            confirm(fresh, forgetter.actor)
    again = plan(get_subject(agent, "bob"))
    # The limit is for keys, not for operators.
    assert confirm(again, "operator:1").state == State.FENCED


def test_erased_anonymous_subject_is_replaced_at_once(
    agent: Agent, acme: Project
) -> None:
    append(agent, "nobodys", TEXT)
    old = subjects.get_anonymous(acme.id)
    row = confirm(plan(old))
    new = subjects.get_anonymous(acme.id)
    assert new.id != old.id
    assert finish(row).state == State.COMPLETE
    assert not Tombstone.objects.filter(kind="subject").exists()
    assert get_thread(make_agent(acme), "bob-1").status == Thread.Status.OPEN


def test_eraser_that_does_nothing_gets_no_receipt(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop an eraser that does nothing before the receipt, as a control."""
    row = confirm(plan(ann))
    row = erasures.advance_erasure(row)
    monkeypatch.setattr(erasure_steps, "take_rows", lambda _: None)
    row = finish(row)
    assert (row.state, row.waiting_on) == (State.KEY_DESTROYED, "store")
    assert not Receipt.objects.exists()
    monkeypatch.undo()
    assert finish(row).state == State.COMPLETE


def test_open_reader_delays_the_receipt(
    ann: Subject, bob: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erase rows and key at once; only the receipt waits for the reader."""
    monkeypatch.setattr(erasure_steps, "SCRUB_SECONDS", 0.0)
    row, before = plan(ann), list_records(bob)
    with readers.hold_snapshot():
        row = finish(confirm(row))
        assert (row.state, row.waiting_on) == (State.CACHES_PURGED, "reader")
        assert not SubjectKey.objects.using("keys").filter(subject=ann.id).exists()
        assert not any(erasure_counts.count_subject(ann.id).values())
        assert not Receipt.objects.exists()
    assert finish(row).state == State.COMPLETE
    assert list_records(bob) == before
