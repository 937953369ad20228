"""The audit log: closed words, one chain, in the transaction of what it tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

import inspector
import memoryhub
from memoryhub.errors import UnavailableError
from memoryhub.journal import Address, Order, audit, perform, run
from memoryhub.kernel.commands import CloseThread
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure
from memoryhub.models.keys import DestroyedKey, SubjectKey
from memoryhub.models.projects import Instance, Project
from memoryhub.models.server.ids import uuid7
from memoryhub.queries.access.audit import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import keys
from tests.cast.factories import append, get_thread
from tests.oracles.kept import unguarded

pytestmark = pytest.mark.django_db


def note(**details: Any) -> int:
    fields: dict[str, Any] = {
        "actor": "command",
        "action": "verified",
        "project": None,
        **details,
    }
    with transaction.atomic():
        return audit.append(**fields)


def test_audit_entries_are_dense_and_chained() -> None:
    assert [note() for _ in range(3)] == [1, 2, 3]
    first, second, third = AuditEntry.objects.order_by("seq")
    assert bytes(first.prev) == audit.GENESIS
    assert bytes(second.prev) == bytes(first.hash)
    assert bytes(third.prev) == bytes(second.hash)
    instance = Instance.objects.get()
    assert (instance.audit_seq, bytes(instance.audit_hash)) == (3, bytes(third.hash))
    assert verify().verified_to == 3


def test_audit_entries_appended_together_are_chained() -> None:
    entry = audit.AuditNote(actor="command", action="scanned", project=None)
    with transaction.atomic():
        assert audit.append_all([entry, entry]) == 2
    assert verify().verified_to == 2


def test_audit_entry_stores_every_given_field(acme: Project) -> None:
    at, target = timezone.now(), uuid7()
    note(
        actor="operator:0197",
        action="content.read",
        project=acme.id,
        target_kind="thread",
        target_id=str(target),
        purpose="support",
        count=2,
        route="p/<project:project>/threads/<name:thread>",
        first_seq=1,
        last_seq=9,
        request_id="r-1",
        at=at,
    )
    row = AuditEntry.objects.latest("seq")
    assert audit.to_json_values(row) == {
        "seq": row.seq,
        "at": at.isoformat(timespec="microseconds"),
        "project": str(acme.id),
        "actor_kind": "operator",
        "actor_ref": "0197",
        "action": "content.read",
        "purpose": "support",
        "target_kind": "thread",
        "target_id": str(target),
        "subject": None,
        "outcome": "done",
        "count": 2,
        "route": "p/<project:project>/threads/<name:thread>",
        "first_seq": 1,
        "last_seq": 9,
        "request_id": "r-1",
    }


def test_audit_entry_is_rolled_back_with_its_transaction() -> None:
    with transaction.atomic():
        note()
        transaction.set_rollback(True)
    assert not AuditEntry.objects.exists()
    assert note() == 1


@pytest.mark.parametrize(
    "details",
    [
        {"actor": "somebody"},
        {"actor": "operator:Ann Miller"},
        {"action": "content.stolen"},
        {"purpose": "curiosity"},
        {"outcome": "it worked out"},
        {"target_kind": "person", "target_id": "1"},
        {"target_kind": "thread", "target_id": "a thread's name: chosen"},
        {"target_kind": "thread"},
        {"target_id": "1"},
        {"route": "/p/acme/threads/Ann Miller"},
    ],
    ids=lambda details: "-".join(map(str, details)),
)
def test_audit_entry_accepts_only_known_words(details: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        note(**details)
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("outcome", ["done", "subject_erased", "plan_stale"])
def test_outcome_may_be_the_code_of_a_refusal(outcome: str) -> None:
    note(outcome=outcome)
    assert AuditEntry.objects.get().outcome == outcome


def test_each_state_of_an_erasure_has_a_word() -> None:
    for state in Erasure.State:
        note(action=f"erasure.{state}")
    assert verify().verified_to == len(Erasure.State)


def test_audit_actions_are_all_used() -> None:
    """Some code notes each word; those of an erasure follow its states."""
    modules = [*Path(memoryhub.__file__).parent.rglob("*.py")]
    modules += Path(inspector.__file__).parent.rglob("*.py")
    own = Path(str(audit.__file__))
    source = "".join(path.read_text() for path in modules if path != own)
    states = {f"erasure.{state}" for state in Erasure.State}
    assert {
        word for word in audit.ACTIONS - states if f'"{word}"' not in source
    } == set()


@pytest.mark.django_db(transaction=True)
def test_audit_entry_requires_a_transaction() -> None:
    with pytest.raises(AssertionError):
        audit.append(actor="command", action="verified", project=None)


def test_subject_is_told_by_a_pseudonym_that_dies_with_her_key(agent: Agent) -> None:
    append(agent, "t-1", "hello")
    subject = get_thread(agent).subject_id
    seq, pseudonym = note(subject=subject), audit.find_pseudonym(subject)
    assert pseudonym is not None
    assert bytes(AuditEntry.objects.get(seq=seq).subject or b"") == pseudonym
    assert pseudonym not in subject.bytes
    _destroy(subject)
    assert AuditEntry.objects.get(seq=note(subject=subject)).subject is None
    assert audit.find_pseudonym(subject) is None


def _destroy(subject: UUID) -> None:
    SubjectKey.objects.using("keys").filter(subject=subject).delete()
    DestroyedKey.objects.using("keys").create(
        subject=subject, erasure=uuid7(), at=timezone.now()
    )
    keys.reset()


@pytest.mark.parametrize("change", [{"count": 7}, {"hash": bytes(32)}])
def test_triggers_refuse_to_change_an_entry(change: dict[str, Any]) -> None:
    note()
    with pytest.raises(DatabaseError), transaction.atomic():
        AuditEntry.objects.update(**change)
    with pytest.raises(DatabaseError), transaction.atomic():
        AuditEntry.objects.all().delete()
    assert AuditEntry.objects.get().count == 0


CHANGES: dict[str, Any] = {
    "at": timezone.now(),
    "project": uuid7(),
    "actor_kind": "worker",
    "actor_ref": "somebody",
    "action": "scanned",
    "purpose": "support",
    "target_kind": "thread",
    "target_id": "x",
    "subject": b"12345678",
    "outcome": "failed",
    "count": 8,
    "route": "p",
    "first_seq": 5,
    "last_seq": 5,
    "request_id": "r",
    "prev": b"x" * 32,
    "hash": b"x" * 32,
}


def test_audit_chain_covers_every_column() -> None:
    columns = {field.name for field in AuditEntry._meta.concrete_fields}
    assert {*CHANGES, "seq"} == columns


@given(count=st.integers(1, 6), data=st.data())
def test_changed_audit_entry_is_reported(count: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, count))
    column = data.draw(st.sampled_from(sorted(CHANGES)))
    with transaction.atomic():
        for _ in range(count):
            note()
        assert verify().wrong is None
        with unguarded(AuditEntry):
            AuditEntry.objects.filter(seq=at).update(**{column: CHANGES[column]})
        found = verify()
        assert (found.wrong, found.verified_to) == (at, at - 1)
        transaction.set_rollback(True)


@pytest.mark.no_replay
@pytest.mark.parametrize("gone", [1, 2, 3])
def test_missing_audit_entry_is_reported(gone: int) -> None:
    for _ in range(3):
        note()
    with unguarded(AuditEntry):
        AuditEntry.objects.filter(seq=gone).delete()
    assert verify().wrong == gone


@pytest.mark.no_replay
def test_added_audit_entry_is_reported() -> None:
    note()
    row = AuditEntry.objects.get()
    row.seq, row.prev = 2, row.hash
    row.hash = audit.link(row)
    row.save(force_insert=True)
    assert verify().wrong == 2


@pytest.mark.no_replay
def test_rewritten_end_of_the_audit_log_is_found() -> None:
    """The last entry was replaced by one whose chain fits as far as it goes."""
    note()
    note()
    row = AuditEntry.objects.get(seq=2)
    row.action = "scanned"
    row.hash = audit.link(row)
    with unguarded(AuditEntry):
        row.save()
    assert verify().wrong == 2


def test_operator_command_is_audited_with_its_events(agent: Agent) -> None:
    append(agent, "t-1", "hello")
    thread = get_thread(agent)
    receipt = perform(_build_closing(thread.project_id, "t-1", actor="operator:0197"))
    row = AuditEntry.objects.latest("seq")
    assert (row.action, row.actor_kind, row.actor_ref) == (
        "operator.edited",
        "operator",
        "0197",
    )
    assert (row.target_kind, row.target_id) == ("thread", str(thread.id))
    assert (row.first_seq, row.last_seq, row.count) == (receipt.seq, receipt.seq, 1)
    assert bytes(row.subject or b"") == audit.find_pseudonym(thread.subject_id)


def test_agent_write_is_not_audited(agent: Agent) -> None:
    before = AuditEntry.objects.count()
    append(agent, "t-1", "hello")
    perform(_build_closing(agent.project, "t-1", actor=agent.actor))
    assert AuditEntry.objects.count() == before


@pytest.mark.django_db(transaction=True)
def test_edit_without_its_audit_entry_is_rolled_back(agent: Agent) -> None:
    append(agent, "t-1", "hello")
    before = get_thread(agent).head_seq
    instance = Instance.objects.get()
    Instance.objects.all().delete()
    order = _build_closing(agent.project, "t-1", actor="operator:0197")
    with pytest.raises(UnavailableError):
        perform(order)
    assert get_thread(agent).head_seq == before
    instance.save(force_insert=True)
    assert perform(order).seq == before + 1


def _build_closing(project: UUID, name: str, *, actor: str) -> Order:
    address = Address(project=project, name=name)
    return Order(address=address, command=CloseThread(reason="failed"), actor=actor)


def test_audit_entries_of_others_are_appended_by_the_writer(acme: Project) -> None:
    def work() -> int:
        with transaction.atomic():
            return audit.append(actor="worker:scan", action="scanned", project=acme.id)

    assert run(work) == AuditEntry.objects.latest("seq").seq
