"""The ledger beside the databases: resumes, replays and refusals after a restore."""

from __future__ import annotations

from dataclasses import replace
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
from memoryhub.services.forget.ledgers import LedgerGap
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
    """Empty the ledger, as if no line had been written yet."""
    ledger.path().unlink()
    NewestLine.objects.using("keys").all().delete()


def make_confirmed(
    subject: Subject, *, scope: str = "subject", **given: Any
) -> Erasure:
    """Make a confirmed erasure that no step was taken for yet."""
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


def build_receipt(erasure: Erasure, text: str = "{}") -> Receipt:
    """Build a receipt without storing it, since the ledger needs its text alone."""
    return Receipt(erasure=erasure, project_id=erasure.project_id, text=text)


def test_ledger_intent_is_written_once(ann: Subject) -> None:
    row = make_confirmed(ann)
    line = ledgers.record_intent(row)
    assert ledgers.record_intent(row) == line
    assert [each.n for each in ledger.iter_lines()] == [1]
    assert (line.kind, line.erasure, line.subject) == (
        LedgerKind.INTENT,
        row.id,
        ann.id,
    )
    assert line.subject_ref == bytes(ann.subject_ref or b"")
    assert line.targets == ()


def test_ledger_targets_are_known_to_a_restored_database(
    agent: Agent, ann: Subject
) -> None:
    make_thread(agent, user_id="ann")
    thread = get_thread(agent)
    some: dict[str, Any] = {"thread": thread}
    digest = blind_index.digest_thread_name(
        keys.get_project_key(agent.project), "t-1"
    ).hex()
    for scope, given, said in (
        ("thread", some, (str(thread.id), digest)),
        ("record", {**some, "seq": 7}, (str(thread.id), 7)),
        ("before", {"before": AT}, ("2026-11-21T12:00:00.000000+00:00", "recorded")),
    ):
        row = make_confirmed(ann, scope=scope, **given)
        line = ledgers.record_intent(row)
        assert line.targets == said
        enter(row, State.COMPLETE)
        if scope == "before":
            wanted = {"before": AT, "clock": "recorded"}
            assert ledger_targets.parse_before(line) == wanted
            # A line of an earlier version holds the instant alone.
            line = replace(line, targets=line.targets[:1])
            assert ledger_targets.parse_before(line) == wanted


def test_subject_ref_is_found_by_the_tombstone_alone(ann: Subject) -> None:
    row, ref = make_confirmed(ann), bytes(ann.subject_ref or b"")
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
    assert ledgers.find_subject_ref(row) == ref
    assert (
        ledgers.find_subject_ref(make_confirmed(subjects.get_anonymous(ann.project_id)))
        is None
    )


def test_second_receipt_of_an_erasure_is_a_replayed_line(ann: Subject) -> None:
    row = make_confirmed(ann)
    ledgers.record_intent(row)
    done = ledgers.record_completion(row, build_receipt(row))
    assert ledgers.record_completion(row, build_receipt(row)) == done
    again = ledgers.record_completion(row, build_receipt(row, '{"another":1}'))
    assert [line.kind for line in ledger.iter_lines()] == ["intent", "done", "replayed"]
    assert ledgers.find_newest_line(row.id) == again
    assert again.receipt_sha256 != done.receipt_sha256
    assert ledgers.find_newest_line(uuid4()) is None


def test_both_databases_record_the_newest_ledger_line(ann: Subject) -> None:
    first, second = (
        make_confirmed(ann),
        make_confirmed(subjects.get_anonymous(ann.project_id)),
    )
    one, two = ledgers.record_intent(first), ledgers.record_intent(second)
    ledgers.record_applied(two)
    # A slower process takes nothing back.
    ledgers.record_applied(one)
    instance = Instance.objects.get()
    assert (instance.ledger_n, bytes(instance.ledger_hash)) == (2, two.hash)
    assert (ledger.noted().n, ledger.noted().hash) == (2, two.hash)


def compare_numbers() -> tuple[list[int], list[int]]:
    found = ledgers.compare_ledger()
    return [x.n for x in found.resumed], [x.n for x in found.replayed]


def test_empty_ledger_needs_no_replay(ann: Subject) -> None:
    assert ledgers.compare_ledger() == LedgerGap()
    assert ledger.path().exists()


def test_erasure_under_way_is_neither_resumed_nor_replayed(ann: Subject) -> None:
    row = make_confirmed(ann)
    ledgers.record_intent(row)
    enter(row, State.FENCED)
    assert compare_numbers() == ([], [])
    enter(row, State.KEY_DESTROYED)
    destroy_key(ann, row)
    assert compare_numbers() == ([], [])
    ledgers.record_completion(row, build_receipt(row))
    enter(row, State.COMPLETE)
    assert compare_numbers() == ([], [])


@pytest.mark.parametrize("state", ledgers.UNFENCED)
def test_unfenced_erasure_in_the_ledger_is_resumed(ann: Subject, state: str) -> None:
    """Resume after a crash, or after a restore to a moment before the fence."""
    row = make_confirmed(ann)
    ledgers.record_intent(row)
    enter(row, state)
    assert compare_numbers() == ([1], [])


def test_erasure_unknown_to_the_database_is_replayed(ann: Subject) -> None:
    row = make_confirmed(ann)
    ledgers.record_intent(row)
    ledgers.record_completion(row, build_receipt(row))
    row.delete()
    Instance.objects.update(ledger_n=0, ledger_hash=b"")
    assert compare_numbers() == ([], [1])
    # An unknown row is replayed, whichever line the databases say they are at.
    ledgers.record_applied(next(ledger.iter_lines()))
    assert compare_numbers() == ([], [1])


@pytest.mark.parametrize("state", ledgers.KEYLESS)
def test_erasure_with_a_restored_key_is_replayed(ann: Subject, state: str) -> None:
    row = make_confirmed(ann)
    ledgers.record_intent(row)
    enter(row, state)
    assert compare_numbers() == ([], [1])
    destroy_key(ann, row)
    assert compare_numbers() == ([], [])


def test_narrower_scope_needs_no_destroyed_key(agent: Agent, ann: Subject) -> None:
    make_thread(agent, user_id="ann")
    row = make_confirmed(ann, scope="thread", thread=get_thread(agent))
    ledgers.record_intent(row)
    enter(row, State.COMPLETE)
    assert compare_numbers() == ([], [])


def test_ledger_lines_are_compared_in_order(acme: Project) -> None:
    for number in range(5):
        row = make_confirmed(subjects.find_or_create(acme.id, f"u-{number}"))
        ledgers.record_intent(row)
        if number % 2:
            row.delete()
    assert compare_numbers() == ([1, 3, 5], [2, 4])


def lose_erasure(subject: Subject, *, scope: str, **given: Any) -> Erasure:
    """Make an erasure that the ledger has and the database has lost."""
    row = make_confirmed(subject, scope=scope, **given)
    ledgers.record_intent(row)
    row.delete()
    return row


def test_unknown_subject_is_replayed_for_its_whole_erasure_alone(
    agent: Agent, ann: Subject
) -> None:
    """Replay an unknown subject's whole erasure, lest the subject is made anew."""
    make_thread(agent, user_id="ann")
    thread = get_thread(agent)
    absent = Subject(id=uuid4(), project_id=ann.project_id, subject_ref=b"x" * 32)
    for scope, replayed in (("subject", [1]), ("before", [1]), ("thread", [1])):
        given: dict[str, Any] = {"thread": {"thread": thread}}.get(scope, {})
        if scope == "before":
            given = {"before": AT}
        lose_erasure(ann, scope=scope, **given)
        assert compare_numbers() == ([], replayed)
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
    assert compare_numbers() == ([], [1])


@pytest.mark.no_replay
def test_erased_thread_or_subject_needs_no_replay(agent: Agent, ann: Subject) -> None:
    make_thread(agent, user_id="ann")
    thread = get_thread(agent)
    lose_erasure(ann, scope="thread", thread=thread)
    lose_erasure(ann, scope="record", thread=thread, seq=1)
    assert compare_numbers() == ([], [1, 2])
    Thread.objects.update(status="erased")
    assert compare_numbers() == ([], [])
    Thread.objects.update(status="open")
    Subject.objects.filter(id=ann.id).update(state="erased")
    assert compare_numbers() == ([], [])


def test_ledger_line_of_an_unknown_project_is_ignored(ann: Subject) -> None:
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
    assert compare_numbers() == ([], [])


def get_refusal_word() -> str:
    with pytest.raises(StartRefusedError) as refused:
        ledgers.compare_ledger()
    assert "\n" not in refused.value.reason
    return refused.value.reason.partition(":")[0]


@pytest.mark.parametrize("knowing", ["memory", "keys"])
@pytest.mark.parametrize("left", [0, 1])
def test_ledger_behind_a_database_is_refused(
    ann: Subject, knowing: str, left: int
) -> None:
    for subject in (ann, subjects.get_anonymous(ann.project_id)):
        ledgers.record_applied(ledgers.record_intent(make_confirmed(subject)))
    whole = ledger.path().read_bytes()
    if knowing == "memory":
        NewestLine.objects.using("keys").all().delete()
    else:
        Instance.objects.update(ledger_n=0, ledger_hash=b"")
    lines = whole.splitlines(keepends=True)
    ledger.path().write_bytes(b"".join(lines[:left]))
    assert get_refusal_word() == "ledger_behind"
    ledger.path().unlink()
    assert get_refusal_word() == "ledger_behind"
    ledger.path().write_bytes(whole)
    assert compare_numbers() == ([1, 2], [])


def test_foreign_ledger_of_equal_length_is_refused(ann: Subject) -> None:
    """Refuse a ledger that is signed and chained, but is not the applied one."""
    ledgers.record_applied(ledgers.record_intent(make_confirmed(ann)))
    begin_anew()
    ledgers.record_intent(make_confirmed(subjects.get_anonymous(ann.project_id)))
    assert get_refusal_word() == "ledger_broken"


def test_damaged_ledger_is_refused(ann: Subject) -> None:
    ledgers.record_intent(make_confirmed(ann))
    good = ledger.path().read_bytes()
    ledger.path().write_bytes(good.replace(b'"scope":"subject"', b'"scope":"thread"'))
    assert get_refusal_word() == "ledger_broken"
    ledger.path().write_bytes(good)
    (settings.LEDGER / "public-keys.json").write_text("no keys")
    assert get_refusal_word() == "ledger_broken"


def test_unwritable_ledger_is_refused(ann: Subject) -> None:
    settings.LEDGER.write_text("a file where the folder would be")
    with pytest.raises(StartRefusedError, match=r"ledger_unwritable: .*File exists"):
        ledgers.compare_ledger()
    settings.LEDGER.unlink()
    row = make_confirmed(ann)
    ledgers.record_intent(row)
    ledger.path().unlink()
    ledger.path().mkdir()
    assert get_refusal_word() == "ledger_unwritable"
    with pytest.raises(LedgerUnwritableError):
        ledgers.record_intent(make_confirmed(subjects.get_anonymous(ann.project_id)))


def test_lost_ledger_is_restored_from_its_mirror(
    ann: Subject, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    ledgers.record_applied(ledgers.record_intent(make_confirmed(ann)))
    ledger.path().unlink()
    assert compare_numbers() == ([1], [])
    assert clock.now() > AT
