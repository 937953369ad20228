"""The ledger beside the databases: what each restore leaves, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings

from memoryhub.errors import LedgerUnwritableError, StartRefusedError
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.keys import DestroyedKey, NewestLine
from memoryhub.models.projects import Instance, Project
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import ledger_targets, ledgers
from memoryhub.services.forget.ledgers import Standing
from memoryhub.services.people import subjects
from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.proof import ledger
from memoryhub.vault.proof.ledger import LedgerKind
from tests.cast.factories import get_thread, make_thread

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
State = Erasure.State


@pytest.fixture
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


def begin_anew() -> None:
    """As if there had been no line yet."""
    ledger.path().unlink()
    NewestLine.objects.using("keys").all().delete()


def planned(subject: Subject, *, scope: str = "subject", **given: Any) -> Erasure:
    """A confirmed one, which nothing was done for yet."""
    return Erasure.objects.create(
        id=uuid7(),
        project_id=subject.project_id,
        subject=subject,
        scope=scope,
        reason="test",
        actor="command",
        epoch=subject.epoch,
        created_at=AT,
        expires_at=AT,
        confirmed_at=AT,
        updated_at=AT,
        **given,
    )


def enter(erasure: Erasure, state: str) -> None:
    Erasure.objects.filter(id=erasure.id).update(state=state)


def destroy_key(subject: Subject, erasure: Erasure) -> None:
    DestroyedKey.objects.using("keys").create(
        subject=subject.id, erasure=erasure.id, at=AT
    )


def receipt(erasure: Erasure, text: str = "{}") -> Receipt:
    """As one that is not stored: what the ledger needs of it is its text."""
    return Receipt(erasure=erasure, project_id=erasure.project_id, text=text)


def test_an_intent_is_said_once(ann: Subject) -> None:
    row = planned(ann)
    line = ledgers.intend(row)
    assert ledgers.intend(row) == line
    assert [each.n for each in ledger.lines()] == [1]
    assert (line.kind, line.erasure, line.subject) == (
        LedgerKind.INTENT,
        row.id,
        ann.id,
    )
    assert line.subject_ref == bytes(ann.subject_ref or b"")
    assert line.targets == ()


def test_the_targets_say_what_a_restored_database_has_too(
    agent: Agent, ann: Subject
) -> None:
    make_thread(agent, user_id="ann")
    thread = get_thread(agent)
    some: dict[str, Any] = {"thread": thread}
    digest = blind_index.thread_name(keys.project_key(agent.project), "t-1").hex()
    for scope, given, said in (
        ("thread", some, (str(thread.id), digest)),
        ("record", {**some, "seq": 7}, (str(thread.id), 7)),
        ("before", {"before": AT}, ("2026-11-21T12:00:00.000000+00:00",)),
    ):
        row = planned(ann, scope=scope, **given)
        line = ledgers.intend(row)
        assert line.targets == said
        enter(row, State.COMPLETE)
        if scope == "before":
            assert ledger_targets.moment(line) == AT


def test_a_ref_is_found_when_only_the_tombstone_has_it(ann: Subject) -> None:
    row, ref = planned(ann), bytes(ann.subject_ref or b"")
    Tombstone.objects.create(
        project_id=ann.project_id,
        subject=ann,
        kind="subject",
        digest=ref,
        erasure=row,
        created_at=AT,
    )
    Subject.objects.filter(id=ann.id).update(subject_ref=None)
    row.refresh_from_db()
    assert ledgers.subject_ref(row) == ref
    assert ledgers.subject_ref(planned(subjects.anonymous(ann.project_id))) is None


def test_it_is_done_once_and_replayed_after_that(ann: Subject) -> None:
    row = planned(ann)
    ledgers.intend(row)
    done = ledgers.close(row, receipt(row))
    assert ledgers.close(row, receipt(row)) == done
    again = ledgers.close(row, receipt(row, '{"another":1}'))
    assert [line.kind for line in ledger.lines()] == ["intent", "done", "replayed"]
    assert ledgers.newest(row.id) == again
    assert again.receipt_sha256 != done.receipt_sha256
    assert ledgers.newest(uuid4()) is None


def test_both_databases_know_how_far_they_are(ann: Subject) -> None:
    first, second = planned(ann), planned(subjects.anonymous(ann.project_id))
    one, two = ledgers.intend(first), ledgers.intend(second)
    ledgers.apply(two)
    # One that was slower takes nothing back.
    ledgers.apply(one)
    instance = Instance.objects.get()
    assert (instance.ledger_n, bytes(instance.ledger_hash)) == (2, two.hash)
    assert (ledger.noted().n, ledger.noted().hash) == (2, two.hash)


def standing() -> tuple[list[int], list[int]]:
    found = ledgers.compare()
    return [x.n for x in found.resumed], [x.n for x in found.replayed]


def test_without_a_line_nothing_is_lacking(ann: Subject) -> None:
    assert ledgers.compare() == Standing()
    assert ledger.path().exists()


def test_what_is_under_way_is_neither_resumed_nor_replayed(ann: Subject) -> None:
    row = planned(ann)
    ledgers.intend(row)
    enter(row, State.FENCED)
    assert standing() == ([], [])
    enter(row, State.KEY_DESTROYED)
    destroy_key(ann, row)
    assert standing() == ([], [])
    ledgers.close(row, receipt(row))
    enter(row, State.COMPLETE)
    assert standing() == ([], [])


@pytest.mark.parametrize("state", ledgers.UNFENCED)
def test_what_was_promised_and_not_begun_is_resumed(ann: Subject, state: str) -> None:
    """Killed between the two; or the memory database is as of a moment earlier."""
    row = planned(ann)
    ledgers.intend(row)
    enter(row, state)
    assert standing() == ([1], [])


def test_what_the_memory_database_does_not_know_is_replayed(ann: Subject) -> None:
    row = planned(ann)
    ledgers.intend(row)
    ledgers.close(row, receipt(row))
    row.delete()
    Instance.objects.update(ledger_n=0, ledger_hash=b"")
    assert standing() == ([], [1])
    # However far the databases say they are: an unknown row is an unknown row.
    ledgers.apply(next(ledger.lines()))
    assert standing() == ([], [1])


@pytest.mark.parametrize("state", ledgers.KEYLESS)
def test_a_key_that_came_back_is_replayed(ann: Subject, state: str) -> None:
    row = planned(ann)
    ledgers.intend(row)
    enter(row, state)
    assert standing() == ([], [1])
    destroy_key(ann, row)
    assert standing() == ([], [])


def test_a_narrower_scope_needs_no_key_gone(agent: Agent, ann: Subject) -> None:
    make_thread(agent, user_id="ann")
    row = planned(ann, scope="thread", thread=get_thread(agent))
    ledgers.intend(row)
    enter(row, State.COMPLETE)
    assert standing() == ([], [])


def test_many_are_compared_in_their_order(acme: Project) -> None:
    for number in range(5):
        row = planned(subjects.find_or_create(acme.id, f"u-{number}"))
        ledgers.intend(row)
        if number % 2:
            row.delete()
    assert standing() == ([1, 3, 5], [2, 4])


def lost(subject: Subject, *, scope: str, **given: Any) -> Erasure:
    """One that the ledger knows and the database no more."""
    row = planned(subject, scope=scope, **given)
    ledgers.intend(row)
    row.delete()
    return row


def test_what_came_after_the_backup_needs_no_replay(agent: Agent, ann: Subject) -> None:
    """But a subject does: she could be made anew, and nobody would know."""
    make_thread(agent, user_id="ann")
    thread = get_thread(agent)
    absent = Subject(id=uuid4(), project_id=ann.project_id, subject_ref=b"x" * 32)
    for scope, replayed in (("subject", [1]), ("before", [1]), ("thread", [1])):
        given: dict[str, Any] = {"thread": {"thread": thread}}.get(scope, {})
        if scope == "before":
            given = {"before": AT}
        lost(ann, scope=scope, **given)
        assert standing() == ([], replayed)
        begin_anew()
    for scope in ("subject", "before"):
        ledger.append(
            kind="intent",
            erasure=uuid4(),
            project=absent.project_id,
            subject=absent.id,
            subject_ref=b"x" * 32,
            scope=scope,
            reason="test",
            targets=[] if scope == "subject" else [AT.isoformat()],
            at=AT,
        )
    assert standing() == ([], [1])


@pytest.mark.no_replay
def test_what_is_gone_anyway_needs_no_replay(agent: Agent, ann: Subject) -> None:
    make_thread(agent, user_id="ann")
    thread = get_thread(agent)
    lost(ann, scope="thread", thread=thread)
    lost(ann, scope="record", thread=thread, seq=1)
    assert standing() == ([], [1, 2])
    Thread.objects.update(status="erased")
    assert standing() == ([], [])
    Thread.objects.update(status="open")
    Subject.objects.filter(id=ann.id).update(state="erased")
    assert standing() == ([], [])


def test_a_project_that_is_not_here_holds_nobody_up(ann: Subject) -> None:
    ledger.append(
        kind="intent",
        erasure=uuid4(),
        project=UUID(int=7),
        subject=uuid4(),
        subject_ref=None,
        scope="subject",
        reason="test",
        targets=[],
        at=AT,
    )
    assert standing() == ([], [])


def refusal() -> str:
    with pytest.raises(StartRefusedError) as refused:
        ledgers.compare()
    assert "\n" not in refused.value.reason
    return refused.value.reason.partition(":")[0]


@pytest.mark.parametrize("knowing", ["memory", "keys"])
@pytest.mark.parametrize("left", [0, 1])
def test_a_ledger_that_is_behind_is_refused(
    ann: Subject, knowing: str, left: int
) -> None:
    for subject in (ann, subjects.anonymous(ann.project_id)):
        ledgers.apply(ledgers.intend(planned(subject)))
    whole = ledger.path().read_bytes()
    if knowing == "memory":
        NewestLine.objects.using("keys").all().delete()
    else:
        Instance.objects.update(ledger_n=0, ledger_hash=b"")
    lines = whole.splitlines(keepends=True)
    ledger.path().write_bytes(b"".join(lines[:left]))
    assert refusal() == "ledger_behind"
    ledger.path().unlink()
    assert refusal() == "ledger_behind"
    ledger.path().write_bytes(whole)
    assert standing() == ([1, 2], [])


def test_another_ledger_of_that_length_is_refused(ann: Subject) -> None:
    """Signed by us and chained, but not the one that was applied."""
    ledgers.apply(ledgers.intend(planned(ann)))
    begin_anew()
    ledgers.intend(planned(subjects.anonymous(ann.project_id)))
    assert refusal() == "ledger_broken"


def test_a_damaged_ledger_is_refused(ann: Subject) -> None:
    ledgers.intend(planned(ann))
    good = ledger.path().read_bytes()
    ledger.path().write_bytes(good.replace(b'"scope":"subject"', b'"scope":"thread"'))
    assert refusal() == "ledger_broken"
    ledger.path().write_bytes(good)
    (settings.LEDGER / "public-keys.json").write_text("no keys")
    assert refusal() == "ledger_broken"


def test_a_ledger_that_can_not_be_written_is_refused(ann: Subject) -> None:
    settings.LEDGER.write_text("a file where the folder would be")
    with pytest.raises(StartRefusedError, match=r"ledger_unwritable: .*File exists"):
        ledgers.compare()
    settings.LEDGER.unlink()
    row = planned(ann)
    ledgers.intend(row)
    ledger.path().unlink()
    ledger.path().mkdir()
    assert refusal() == "ledger_unwritable"
    with pytest.raises(LedgerUnwritableError):
        ledgers.intend(planned(subjects.anonymous(ann.project_id)))


def test_what_the_mirror_has_is_not_lost(
    ann: Subject, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    ledgers.apply(ledgers.intend(planned(ann)))
    ledger.path().unlink()
    assert standing() == ([1], [])
    assert clock.now() > AT
