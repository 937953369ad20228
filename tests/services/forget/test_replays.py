"""Resumes and replays: erasures in the ledger are fenced before all else.

Tests of the commands cover the whole way, over restored files.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from memoryhub.errors import ErasuresToReplayError, SubjectErasedError
from memoryhub.journal.forget import scrub
from memoryhub.models.erasures import Erasure, Hold, Receipt
from memoryhub.models.events import Event
from memoryhub.models.keys import DestroyedKey
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures, ledgers, replays
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.people import subjects
from memoryhub.services.scan import scans
from memoryhub.vault.keys import keys
from memoryhub.vault.proof import ledger
from tests.cast.factories import append, get_thread, make_thread
from tests.cast.forgetting import plan

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture(autouse=True)
def going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "waiting", 0)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    make_thread(agent, user_id="ann")
    append(agent, "t-1", "seat 12A", "and a salad")
    return get_thread(agent).subject


def make_plan(subject: Subject, **options: object) -> Erasure:
    row = plan(subject, restrict=bool(options.get("restrict")))
    Erasure.objects.filter(id=row.id).update(state=options.get("state", State.PLANNED))
    return Erasure.objects.get(id=row.id)


@pytest.mark.parametrize("state", [State.PLANNED, State.HELD, State.EXPIRED])
@pytest.mark.parametrize("confirmed", [True, False])
def test_erasure_in_the_ledger_is_fenced_at_the_start(
    ann: Subject, state: str, confirmed: bool
) -> None:
    """Start after a crash between ledger and fence, or from a backup of the plan."""
    row = make_plan(ann, state=state)
    if confirmed:
        Erasure.objects.filter(id=row.id).update(confirmed_at=clock.now())
    line = ledgers.record_intent(row)
    assert replays.fence_and_count() == 0
    row.refresh_from_db()
    assert (row.state, row.ledger_n) == (State.FENCED, line.n)
    assert row.confirmed_at is not None
    assert Instance.objects.get().ledger_n == line.n
    with pytest.raises(SubjectErasedError):
        subjects.find_or_create(ann.project_id, "ann")
    # A second start has nothing to do.
    assert (replays.resume_fences(), replays.fence_and_count()) == (0, 0)
    assert [each.n for each in ledger.iter_lines()] == [1]


def test_start_without_replays_is_not_held_back(ann: Subject) -> None:
    assert replays.fence_and_count() == 0
    maintenance.require_none()
    assert replays.list_pending() == []


def test_unknown_erasure_puts_the_server_into_maintenance(ann: Subject) -> None:
    row = make_plan(ann)
    ledgers.record_intent(row)
    row.delete()
    assert replays.fence_and_count() == maintenance.waiting == 1
    with pytest.raises(ErasuresToReplayError):
        maintenance.require_none()
    assert b"erasures_to_replay" in maintenance.refusal_text


def lose_erasure(subject: Subject) -> ledger.LedgerLine:
    """Return the ledger line of an erasure that the database has lost."""
    row = make_plan(subject)
    line = ledgers.record_intent(row)
    row.delete()
    return line


def test_replay_makes_the_erasure_anew_under_its_id(ann: Subject) -> None:
    line = lose_erasure(ann)
    row = replays.replay_erasure(line)
    assert (row.id, row.subject_id, row.reason) == (line.erasure, ann.id, "test")
    assert row.created_at == line.at
    assert row.state not in ledgers.UNFENCED
    assert DestroyedKey.objects.using("keys").filter(subject=ann.id).exists()
    assert replays.fence_and_count() == 0


def test_replay_expires_an_open_plan_of_the_backup(ann: Subject) -> None:
    line = lose_erasure(ann)
    other = make_plan(ann, restrict=True)
    replays.replay_erasure(line)
    other.refresh_from_db()
    assert other.state == State.EXPIRED


def test_replay_makes_an_unknown_subject_as_erased(ann: Subject) -> None:
    ref = b"x" * 32
    line = ledger.append(
        kind="intent",
        erasure=uuid4(),
        project=ann.project_id,
        subject=uuid4(),
        subject_ref=ref,
        scope="subject",
        reason="child",
        targets=[],
        at=clock.now(),
    )
    assert replays.fence_and_count() == 1
    replays.replay_erasure(line)
    found = Subject.objects.get(id=line.subject)
    assert found.state in (Subject.State.ERASING, Subject.State.ERASED)
    assert found.tombstone_rows.filter(kind="subject", digest=ref).count() == 1
    assert replays.fence_and_count() == 0


@pytest.mark.parametrize("state", [State.KEY_DESTROYED, State.VERIFIED])
def test_replay_destroys_a_restored_key_again(ann: Subject, state: str) -> None:
    row = make_plan(ann)
    ledgers.record_intent(row)
    replays.fence_and_count()
    Erasure.objects.filter(id=row.id).update(state=state)
    assert replays.fence_and_count() == 1
    replays.replay_erasure(next(ledger.iter_lines()))
    assert DestroyedKey.objects.using("keys").filter(subject=ann.id).exists()
    assert replays.fence_and_count() == 0


def test_hold_of_the_backup_does_not_stop_a_replay(ann: Subject) -> None:
    """Ignore the hold, which was lifted before the erasure began."""
    line = lose_erasure(ann)
    Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="legal_claims",
        opened_by="command",
        opened_at=clock.now(),
        expires_at=clock.now() + timedelta(days=30),
    )
    assert replays.replay_erasure(line).state not in ledgers.UNFENCED


# Several erasures of one subject


def narrow(agent: Agent, seq: int = 2, state: str = State.TOMBSTONED) -> Erasure:
    """Make an erasure of one record, and advance it to the state."""
    thread = get_thread(agent)
    row = plan(thread.subject, "record", thread=thread, seq=seq)
    Erasure.objects.filter(id=row.id).update(confirmed_at=clock.now())
    if state != State.PLANNED:
        return advance_to(row, state)
    ledgers.record_intent(row)
    return Erasure.objects.get(id=row.id)


def advance_to(row: Erasure, state: str) -> Erasure:
    while row.state != state:
        before = row.state
        row = erasures.advance_erasure(row)
        assert row.state != before, row.waiting_on
    return row


def append_later_line(row: Erasure, scope: str) -> ledger.LedgerLine:
    """Write the line of a later erasure that the database does not know."""
    thread = row.thread
    assert thread is not None
    of: dict[str, list[object]] = {
        "subject": [],
        "thread": [str(thread.id)],
        "record": [str(thread.id), 3],
    }
    return ledger.append(
        kind="intent",
        erasure=uuid4(),
        project=row.project_id,
        subject=row.subject_id,
        subject_ref=ledgers.find_subject_ref(row),
        scope=scope,
        reason="test",
        targets=of[scope],
        at=clock.now(),
    )


def list_sealed() -> set[int]:
    rows = Event.objects.filter(thread__name="t-1", payload__isnull=False)
    return set(rows.values_list("seq", flat=True))


@pytest.mark.parametrize("key", ["there", "gone"])
@pytest.mark.parametrize(
    "known", [None, State.PLANNED, State.TOMBSTONED, State.VERIFIED, State.COMPLETE]
)
def test_subject_erasure_after_a_record_erasure_is_replayed(
    agent: Agent, ann: Subject, known: str | None, key: str
) -> None:
    """Replay over any state of the first erasure, with one or both databases restored.

    The later erasure of the whole subject includes the record.
    """
    first = narrow(agent, state=known or State.PLANNED)
    line = append_later_line(first, "subject")
    if known is None:
        first.delete()
    if key == "gone":
        keys.destroy(ann.id, erasure=line.erasure, at=clock.now())
    assert replays.fence_and_count() == 1
    assert [each.erasure for each in replays.list_pending()] == [line.erasure]
    assert replays.replay_erasure(line).state == State.COMPLETE
    ended = State.EXPIRED if known == State.PLANNED else State.COMPLETE
    found = Erasure.objects.filter(id=first.id).values_list("state", flat=True)
    assert found.first() == (None if known is None else ended)
    assert not list_sealed()
    ann.refresh_from_db()
    assert ann.state == Subject.State.ERASED
    # The next start has nothing to do.
    assert (replays.fence_and_count(), replays.resume_fences()) == (0, 0)


@pytest.mark.parametrize("scope", ["record", "thread"])
@pytest.mark.parametrize("known", [State.PLANNED, State.TOMBSTONED, State.SCRUBBED])
def test_unfinished_erasure_is_completed_before_a_later_replay(
    agent: Agent, ann: Subject, known: str, scope: str
) -> None:
    """Let the replay complete the first, since a subject has one open erasure."""
    first = narrow(agent, state=known)
    line = append_later_line(first, scope)
    assert replays.fence_and_count() == 1
    row = replays.replay_erasure(line)
    assert (row.id, row.state) == (line.erasure, State.COMPLETE)
    first.refresh_from_db()
    assert first.state == State.COMPLETE
    assert not {2, 3} & list_sealed()
    assert Receipt.objects.count() == 2
    assert (replays.fence_and_count(), replays.resume_fences()) == (0, 0)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list; while it holds a word, scrubs wait for a reader."""
    words: list[str] = []
    work = scrub.scrub

    def scrubbed(*, seconds: float) -> str:
        return words[0] if words else work(seconds=seconds)

    monkeypatch.setattr(scrub, "scrub", scrubbed)
    return words


def test_waiting_erasure_is_returned_and_the_later_replay_stays_due(
    agent: Agent, ann: Subject, reader: list[str]
) -> None:
    first = narrow(agent)
    line = append_later_line(first, "record")
    reader.append("reader")
    row = replays.replay_erasure(line)
    assert (row.id, row.state, row.waiting_on) == (
        *(first.id, State.CACHES_PURGED),
        "reader",
    )
    assert replays.fence_and_count() == 1
    reader.clear()
    assert replays.replay_erasure(line).id == line.erasure
    assert replays.fence_and_count() == 0
    assert not {2, 3} & list_sealed()


def test_subject_replay_does_not_wait_for_a_narrower_erasure(
    agent: Agent, ann: Subject, reader: list[str]
) -> None:
    """Expire the narrower erasure, and report the reader for the whole subject."""
    first = narrow(agent)
    line = append_later_line(first, "subject")
    reader.append("reader")
    row = replays.replay_erasure(line)
    assert (row.id, row.waiting_on) == (line.erasure, "reader")
    first.refresh_from_db()
    assert first.state == State.EXPIRED
    reader.clear()
    advance_to(row, State.COMPLETE)
    assert (replays.fence_and_count(), replays.resume_fences()) == (0, 0)


def test_record_erasure_of_another_subject_is_replayed_too(
    agent: Agent, ann: Subject
) -> None:
    """Replay the twin's record, which the other subject's erasure does not include."""
    make_thread(agent, "t-2", user_id="bob")
    append(agent, "t-2", "seat 12A")
    thread = get_thread(agent, "t-2")
    other = plan(thread.subject, "record", thread=thread, seq=2)
    mine = append_later_line(narrow(agent, state=State.PLANNED), "subject")
    line = ledgers.record_intent(other)
    other.delete()
    assert [each.erasure for each in replays.list_pending()] == [
        mine.erasure,
        line.erasure,
    ]
    for each in replays.list_pending():
        assert replays.replay_erasure(each).state == State.COMPLETE
    assert not Event.objects.get(thread=thread, seq=2).payload
    assert replays.fence_and_count() == 0


def test_replay_does_not_wait_for_the_night(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scan at once, since nobody is served during a replay."""
    monkeypatch.setattr(scans, "BUDGET_BYTES", 0)
    line = lose_erasure(ann)
    assert replays.fence_and_count() == 1
    assert replays.replay_erasure(line).state == State.COMPLETE


def test_scan_waits_for_the_night_when_nothing_is_replayed(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defer the scan as a control, with nothing to replay."""
    monkeypatch.setattr(scans, "BUDGET_BYTES", 0)
    row = narrow(agent, state=State.SCRUBBED)
    row = erasures.advance_erasure(row)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "night")
