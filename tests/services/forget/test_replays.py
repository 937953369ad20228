"""Resuming and replaying: what the ledger has promised is fenced before all else.

The whole way, over files that are put back, is tried with the commands.
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


def planned(subject: Subject, **options: object) -> Erasure:
    row = plan(subject, restrict=bool(options.get("restrict")))
    Erasure.objects.filter(id=row.id).update(state=options.get("state", State.PLANNED))
    return Erasure.objects.get(id=row.id)


@pytest.mark.parametrize("state", [State.PLANNED, State.HELD, State.EXPIRED])
@pytest.mark.parametrize("confirmed", [True, False])
def test_what_was_promised_is_fenced_at_the_start(
    ann: Subject, state: str, confirmed: bool
) -> None:
    """Killed between ledger and fence; or the backup is as of the plan."""
    row = planned(ann, state=state)
    if confirmed:
        Erasure.objects.filter(id=row.id).update(confirmed_at=clock.now())
    line = ledgers.intend(row)
    assert replays.look() == 0
    row.refresh_from_db()
    assert (row.state, row.ledger_n) == (State.FENCED, line.n)
    assert row.confirmed_at is not None
    assert Instance.objects.get().ledger_n == line.n
    with pytest.raises(SubjectErasedError):
        subjects.find_or_create(ann.project_id, "ann")
    # Once more there is nothing to do.
    assert (replays.resume(), replays.look()) == (0, 0)
    assert [each.n for each in ledger.lines()] == [1]


def test_nothing_to_replay_holds_nothing_back(ann: Subject) -> None:
    assert replays.look() == 0
    maintenance.require_none()
    assert replays.pending() == []


def test_an_unknown_erasure_holds_all_back(ann: Subject) -> None:
    row = planned(ann)
    ledgers.intend(row)
    row.delete()
    assert replays.look() == maintenance.waiting == 1
    with pytest.raises(ErasuresToReplayError):
        maintenance.require_none()
    assert b"erasures_to_replay" in maintenance.refusal_text


def lost(subject: Subject) -> ledger.Line:
    """The line of an erasure that the database does not know any more."""
    row = planned(subject)
    line = ledgers.intend(row)
    row.delete()
    return line


def test_a_replay_makes_the_erasure_anew_under_its_id(ann: Subject) -> None:
    line = lost(ann)
    row = replays.replay(line)
    assert (row.id, row.subject_id, row.reason) == (line.erasure, ann.id, "test")
    assert row.created_at == line.at
    assert row.state not in ledgers.UNFENCED
    assert DestroyedKey.objects.using("keys").filter(subject=ann.id).exists()
    assert replays.look() == 0


def test_an_open_plan_of_the_backup_gives_way(ann: Subject) -> None:
    line = lost(ann)
    other = planned(ann, restrict=True)
    replays.replay(line)
    other.refresh_from_db()
    assert other.state == State.EXPIRED


def test_somebody_unknown_is_known_as_erased(ann: Subject) -> None:
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
    assert replays.look() == 1
    replays.replay(line)
    found = Subject.objects.get(id=line.subject)
    assert found.state in (Subject.State.ERASING, Subject.State.ERASED)
    assert found.tombstone_rows.filter(kind="subject", digest=ref).count() == 1
    assert replays.look() == 0


@pytest.mark.parametrize("state", [State.KEY_DESTROYED, State.VERIFIED])
def test_a_key_that_came_back_goes_once_more(ann: Subject, state: str) -> None:
    row = planned(ann)
    ledgers.intend(row)
    replays.look()
    Erasure.objects.filter(id=row.id).update(state=state)
    assert replays.look() == 1
    replays.replay(next(ledger.lines()))
    assert DestroyedKey.objects.using("keys").filter(subject=ann.id).exists()
    assert replays.look() == 0


def test_a_hold_of_the_backup_holds_no_subject_back(ann: Subject) -> None:
    """It was lifted before she was erased, or that had never begun."""
    line = lost(ann)
    Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="legal_claims",
        opened_by="command",
        opened_at=clock.now(),
        expires_at=clock.now() + timedelta(days=30),
    )
    assert replays.replay(line).state not in ledgers.UNFENCED


# Several of one subject


def narrow(agent: Agent, seq: int = 2, state: str = State.TOMBSTONED) -> Erasure:
    """An erasure of one record of hers, as far as that."""
    thread = get_thread(agent)
    row = plan(thread.subject, "record", thread=thread, seq=seq)
    Erasure.objects.filter(id=row.id).update(confirmed_at=clock.now())
    if state != State.PLANNED:
        return brought(row, state)
    ledgers.intend(row)
    return Erasure.objects.get(id=row.id)


def brought(row: Erasure, state: str) -> Erasure:
    while row.state != state:
        before = row.state
        row = erasures.advance(row)
        assert row.state != before, row.waiting_on
    return row


def later(row: Erasure, scope: str) -> ledger.Line:
    """The line of one that came after it, of which the database knows nothing."""
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
        subject_ref=ledgers.subject_ref(row),
        scope=scope,
        reason="test",
        targets=of[scope],
        at=clock.now(),
    )


def sealed() -> set[int]:
    rows = Event.objects.filter(thread__name="t-1", payload__isnull=False)
    return set(rows.values_list("seq", flat=True))


@pytest.mark.parametrize("key", ["there", "gone"])
@pytest.mark.parametrize(
    "known", [None, State.PLANNED, State.TOMBSTONED, State.VERIFIED, State.COMPLETE]
)
def test_who_went_after_a_record_of_hers(
    agent: Agent, ann: Subject, known: str | None, key: str
) -> None:
    """Whatever the backup holds of the first, and though only one database went back.

    Where she goes whole, the record goes as a part of her.
    """
    first = narrow(agent, state=known or State.PLANNED)
    line = later(first, "subject")
    if known is None:
        first.delete()
    if key == "gone":
        keys.destroy(ann.id, erasure=line.erasure, at=clock.now())
    assert replays.look() == 1
    assert [each.erasure for each in replays.pending()] == [line.erasure]
    assert replays.replay(line).state == State.COMPLETE
    ended = State.EXPIRED if known == State.PLANNED else State.COMPLETE
    found = Erasure.objects.filter(id=first.id).values_list("state", flat=True)
    assert found.first() == (None if known is None else ended)
    assert not sealed()
    ann.refresh_from_db()
    assert ann.state == Subject.State.ERASED
    # And never again: the next start has nothing to do.
    assert (replays.look(), replays.resume()) == (0, 0)


@pytest.mark.parametrize("scope", ["record", "thread"])
@pytest.mark.parametrize("known", [State.PLANNED, State.TOMBSTONED, State.SCRUBBED])
def test_a_half_is_finished_before_what_came_later(
    agent: Agent, ann: Subject, known: str, scope: str
) -> None:
    """One of hers is open at a time, and nobody but the replay goes on with it."""
    first = narrow(agent, state=known)
    line = later(first, scope)
    assert replays.look() == 1
    row = replays.replay(line)
    assert (row.id, row.state) == (line.erasure, State.COMPLETE)
    first.refresh_from_db()
    assert first.state == State.COMPLETE
    assert not {2, 3} & sealed()
    assert Receipt.objects.count() == 2
    assert (replays.look(), replays.resume()) == (0, 0)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody who reads an old state, for as long as the word stands here."""
    words: list[str] = []
    work = scrub.scrub

    def scrubbed(*, seconds: float) -> str:
        return words[0] if words else work(seconds=seconds)

    monkeypatch.setattr(scrub, "scrub", scrubbed)
    return words


def test_a_half_that_waits_is_told_and_the_later_one_stays_to_be_done(
    agent: Agent, ann: Subject, reader: list[str]
) -> None:
    first = narrow(agent)
    line = later(first, "record")
    reader.append("reader")
    row = replays.replay(line)
    assert (row.id, row.state, row.waiting_on) == (
        *(first.id, State.CACHES_PURGED),
        "reader",
    )
    assert replays.look() == 1
    reader.clear()
    assert replays.replay(line).id == line.erasure
    assert replays.look() == 0
    assert not {2, 3} & sealed()


def test_who_goes_whole_waits_for_no_half(
    agent: Agent, ann: Subject, reader: list[str]
) -> None:
    """What is in the way of the first is in her own way as well, and said of her."""
    first = narrow(agent)
    line = later(first, "subject")
    reader.append("reader")
    row = replays.replay(line)
    assert (row.id, row.waiting_on) == (line.erasure, "reader")
    first.refresh_from_db()
    assert first.state == State.EXPIRED
    reader.clear()
    brought(row, State.COMPLETE)
    assert (replays.look(), replays.resume()) == (0, 0)


def test_another_person_s_record_is_replayed_all_the_same(
    agent: Agent, ann: Subject
) -> None:
    """The twin: only hers is a part of what came later."""
    make_thread(agent, "t-2", user_id="bob")
    append(agent, "t-2", "seat 12A")
    thread = get_thread(agent, "t-2")
    other = plan(thread.subject, "record", thread=thread, seq=2)
    mine = later(narrow(agent, state=State.PLANNED), "subject")
    line = ledgers.intend(other)
    other.delete()
    assert [each.erasure for each in replays.pending()] == [mine.erasure, line.erasure]
    for each in replays.pending():
        assert replays.replay(each).state == State.COMPLETE
    assert not Event.objects.get(thread=thread, seq=2).payload
    assert replays.look() == 0


def test_a_replay_does_not_wait_for_the_night(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is served meanwhile, so a scan is in nobody's way."""
    monkeypatch.setattr(scans, "BUDGET_BYTES", 0)
    line = lost(ann)
    assert replays.look() == 1
    assert replays.replay(line).state == State.COMPLETE


def test_whoever_is_served_is_not_in_the_way_of_a_scan(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: with nothing to replay it does wait."""
    monkeypatch.setattr(scans, "BUDGET_BYTES", 0)
    row = narrow(agent, state=State.SCRUBBED)
    row = erasures.advance(row)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "night")
