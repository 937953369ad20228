"""Cold threads: payloads out and back, byte-equal, and reached by every right."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from django.conf import settings
from django.test import override_settings
from structlog.testing import capture_logs

from memoryhub.errors import ColdStorageError, SealBrokenError
from memoryhub.journal import cold as journal_cold
from memoryhub.journal.rows import totals
from memoryhub.models.cold import ColdObject
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.scan import surfaces
from memoryhub.queries.scan.surface_kinds import SurfaceKind
from memoryhub.queries.threads.last_messages import list_last
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.threads import threads
from memoryhub.vault.keys import cold_payloads
from memoryhub.vault.scan.sources import TargetSearch
from memoryhub.vault.scan.targets import ScanTarget, TargetKind
from memoryhub.workers import cold
from tests.cast import bundled
from tests.cast.factories import append, get_thread, run
from tests.cast.forgetting import confirm, forget, get_subject, make_person, plan
from tests.services.acts import fork, list_contents

pytestmark = pytest.mark.django_db(transaction=True)
FOLDER = Path(settings.STORAGES["cold"]["OPTIONS"]["location"])
DAYS = 30
State = ColdObject.State


@pytest.fixture(autouse=True)
def storage() -> Iterator[None]:
    """Empty the storage and the caches, whose ids no other test has."""
    with override_settings(COLD_DAYS=DAYS):
        yield
    cold_payloads.looked.take_all()
    shutil.rmtree(FOLDER, ignore_errors=True)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    """Make a person with a closed thread, and her twin with an open one."""
    make_person(agent, "twin")
    found = make_person(agent, "ann")
    run(threads.close(agent=agent, thread="ann-1", reason="completed"))
    return found


def move(days: int = DAYS + 1) -> int:
    return cold.move(clock.now() + timedelta(days=days))


def read_payloads(subject: Subject) -> list[bytes | None]:
    rows = Event.objects.filter(thread__subject=subject).order_by("thread", "seq")
    return [
        None if each is None else bytes(each)
        for each in rows.values_list("payload", flat=True)
    ]


def count_references(subject: Subject) -> int:
    rows = read_payloads(subject)
    return sum(cold_payloads.is_reference(each or b"") for each in rows)


def list_files() -> list[Path]:
    return sorted(FOLDER.glob("*.sealed"))


def export_events(subject: Subject) -> bytes:
    with ZipFile(BytesIO(bundled.export(subject))) as bundle:
        return bundle.read("events.jsonl")


def verify_all(subject: Subject) -> None:
    for thread in subject.threads.select_related("subject"):
        assert verify(thread) is None
    assert totals.get(subject.id) == totals.count(subject.id)


def test_payloads_move_and_come_back_byte_equal(agent: Agent, ann: Subject) -> None:
    before = read_payloads(ann)
    contents = list_contents(get_thread(agent, "ann-1"))
    assert move(days=1) == 0
    assert move() == 1
    assert move() == 0
    # All but the home thread's, which is open.
    assert count_references(ann) == 3
    assert len(list_files()) == ColdObject.objects.filter(state=State.COLD).count() == 1
    verify_all(ann)
    cold_payloads.objects.drop(lambda *_: True)
    assert list_contents(get_thread(agent, "ann-1")) == contents
    assert cold.return_looked() == 3
    assert read_payloads(ann) == before
    verify_all(ann)
    # The object stays for backups that refer to it, and goes after their time.
    assert move(days=DAYS - 1) == 0
    assert len(list_files()) == 1
    assert move(days=DAYS + 1) == 1
    assert count_references(ann) == 3
    assert journal_cold.return_objects([ColdObject.objects.latest("id").id]) == 3
    journal_cold.tidy(clock.now() + timedelta(days=settings.BACKUP_DAYS + 1))
    assert list_files() == []
    assert not ColdObject.objects.exists()


def test_fork_reads_its_cold_parent(agent: Agent, ann: Subject) -> None:
    contents = list_contents(get_thread(agent, "ann-1"))
    assert move() == 1
    assert list_contents(fork(agent, "ann-1", "ann-2")) == contents


def test_list_of_threads_fetches_nothing(agent: Agent, ann: Subject) -> None:
    """A page of 50 threads must not fetch 50 objects, and is no look at each."""
    home = get_thread(agent, "ann-1")
    newest = {home.id: home.slot_count - 1}
    assert list_last(newest)[home.id].content
    assert move() == 1
    cold_payloads.objects.drop(lambda *_: True)
    last = list_last(newest)[home.id]
    assert (last.cold, last.content) == (True, None)
    assert cold.return_looked() == 0
    assert list_contents(home)


def test_reopened_thread_stays_whole(agent: Agent, ann: Subject) -> None:
    contents = list_contents(get_thread(agent, "ann-1"))
    assert move() == 1
    run(threads.reopen(agent=agent, thread="ann-1"))
    append(agent, "ann-1", "One more thing.")
    assert list_contents(get_thread(agent, "ann-1")) == [*contents, "One more thing."]
    verify_all(ann)


def test_erased_subject_leaves_no_object(agent: Agent, ann: Subject) -> None:
    twin = get_subject(agent, "twin")
    kept = read_payloads(twin)
    assert move() == 1
    assert forget(ann).state == Erasure.State.COMPLETE
    assert list_files() == []
    assert not ColdObject.objects.exists()
    assert read_payloads(twin) == kept


def test_erased_messages_leave_the_object_and_others_come_back(
    agent: Agent, ann: Subject
) -> None:
    before = read_payloads(ann)
    assert move() == 1
    (path,) = list_files()
    seq = get_thread(agent, "ann-1").slots.get(index=0).seq
    row = forget(ann, Erasure.Scope.RECORD, thread=get_thread(agent, "ann-1"), seq=seq)
    assert row.state == Erasure.State.COMPLETE
    assert not path.exists()
    assert count_references(ann) == 0
    after = read_payloads(ann)
    lost = [old for old, new in zip(before, after, strict=False) if old != new]
    assert lost
    assert all(new is None or new in before for new in after[: len(before)])
    verify_all(ann)


def test_storage_that_is_away_refuses_and_changes_nothing(
    agent: Agent, ann: Subject, tmp_path: Path
) -> None:
    broken = tmp_path / "file"
    broken.write_text("no folder")
    away = {**settings.STORAGES, "cold": {**settings.STORAGES["cold"]}}
    away["cold"]["OPTIONS"] = {"location": broken}
    before = read_payloads(ann)
    with override_settings(STORAGES=away), pytest.raises(ColdStorageError):
        move()
    assert read_payloads(ann) == before
    assert move() == 1
    cold_payloads.objects.drop(lambda *_: True)
    with override_settings(STORAGES=away):
        with pytest.raises(ColdStorageError):
            list_contents(get_thread(agent, "ann-1"))
        with pytest.raises(ColdStorageError):
            bundled.export(ann)
        row = erasures.run_erasure(confirm(plan(ann)).id)
        assert row.waiting_on == "store"
    assert erasures.run_erasure(row.id).state == Erasure.State.COMPLETE
    assert list_files() == []


@pytest.mark.parametrize("empty", [True, False])
def test_missing_storage_loses_nothing(
    agent: Agent, ann: Subject, tmp_path: Path, *, empty: bool
) -> None:
    """An empty folder is a disk that is not mounted, no storage without objects."""
    assert move() == 1
    cold_payloads.objects.drop(lambda *_: True)
    shutil.move(FOLDER, tmp_path / "kept")
    if empty:
        FOLDER.mkdir()
    home = get_thread(agent, "ann-1")
    with pytest.raises(ColdStorageError):
        list_contents(home)
    (place,) = (
        each for each in surfaces.iter_surfaces() if each.kind == SurfaceKind.COLD
    )
    with pytest.raises(ColdStorageError):
        place.read()
    seq = home.slots.get(index=0).seq
    made = plan(ann, Erasure.Scope.RECORD, thread=home, seq=seq)
    row = erasures.run_erasure(confirm(made).id)
    assert row.waiting_on == "store"
    with pytest.raises(ColdStorageError):
        journal_cold.move_thread(get_thread(agent, "twin-1"))
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.move(tmp_path / "kept", FOLDER)
    assert erasures.run_erasure(row.id).state == Erasure.State.COMPLETE
    assert list_files() == []
    assert count_references(ann) == 0
    verify_all(ann)


def test_return_stops_where_storage_is_away(
    agent: Agent, ann: Subject, tmp_path: Path
) -> None:
    run(threads.close(agent=agent, thread="twin-1", reason="completed"))
    assert move() == 2
    shutil.move(FOLDER, tmp_path / "kept")
    for each in ColdObject.objects.values_list("id", flat=True):
        cold_payloads.looked.add(each)
    cold_payloads.objects.drop(lambda *_: True)
    with capture_logs() as logs:
        assert cold.return_looked() == 0
    # One question, not one for each object: every one may take until a timeout.
    assert [each["event"] for each in logs] == ["cold.failed"]
    shutil.move(tmp_path / "kept", FOLDER)
    assert cold.return_looked() == 6


def test_slow_mover_keeps_its_object_from_tidying(agent: Agent, ann: Subject) -> None:
    thread = get_thread(agent, "ann-1")
    assert move() == 1
    late = ColdObject.objects.get()
    late.state = State.WRITING  # As another process read the row before the move ended.
    assert journal_cold._remove_objects([late]) == 0
    assert len(list_files()) == 1
    cold_payloads.objects.drop(lambda *_: True)
    assert list_contents(thread)


def test_export_and_scan_reach_cold_threads(agent: Agent, ann: Subject) -> None:
    warm = export_events(ann)
    assert move() == 1
    assert export_events(ann) == warm
    # Nobody has looked: an export leaves threads where they are.
    assert cold.return_looked() == 0
    (path,) = list_files()
    sealed = cold_payloads.fetch_object(ColdObject.objects.get().id)
    found = TargetSearch([ScanTarget(kind=TargetKind.NONCE, data=sealed[:15])])
    (place,) = (
        each for each in surfaces.iter_surfaces() if each.kind == SurfaceKind.COLD
    )
    assert place.place == path.name
    assert found.search_stream(place.read())


@pytest.mark.no_replay
def test_damaged_object_is_told_by_verify(agent: Agent, ann: Subject) -> None:
    assert move() == 1
    (path,) = list_files()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    cold_payloads.objects.drop(lambda *_: True)
    thread = get_thread(agent, "ann-1")
    difference = verify(thread)
    assert difference is not None
    assert difference.what == "payload"
    with pytest.raises(SealBrokenError):
        journal_cold.return_objects([ColdObject.objects.get().id])
    assert count_references(ann) == 3
    # What must go gives back what is whole.
    ColdObject.objects.update(state=State.DOOMED)
    assert journal_cold.tidy(clock.now()) == 1
    assert count_references(ann) == 1
    assert totals.get(ann.id) == totals.count(ann.id)


def test_erasure_waits_for_whoever_writes_an_object(agent: Agent, ann: Subject) -> None:
    assert move() == 1
    (cold_row,) = ColdObject.objects.all()
    writing = ColdObject.objects.create(
        thread=cold_row.thread, payloads=1, bytes=1, changed_at=clock.now()
    )
    row = erasures.run_erasure(confirm(plan(ann)).id)
    assert row.waiting_on == "store"
    ColdObject.objects.filter(id=writing.id).update(
        changed_at=clock.now() - journal_cold.WRITER_LIVES
    )
    assert erasures.run_erasure(row.id).state == Erasure.State.COMPLETE


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thousand_threads_go_out_and_come_back_byte_equal(agent: Agent) -> None:
    subject = make_person(agent, "bob", threads=1_000)
    for n in range(1, 1_001):
        run(threads.close(agent=agent, thread=f"bob-{n}", reason="archived"))
    before = read_payloads(subject)
    moved = 0
    while count := move():
        moved += count
    assert moved == 1_000
    assert count_references(subject) == len([each for each in before if each])
    for thread in subject.threads.filter(home=False).iterator():
        assert list_contents(thread)
    returned = 0
    # A round ends when its time is up.
    while count := cold.return_looked():
        returned += count
    assert returned == 3_000
    assert read_payloads(subject) == before
    assert totals.get(subject.id) == totals.count(subject.id)
