from __future__ import annotations

import secrets
import threading
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import psycopg
import pytest
from django.db import connections
from psycopg import conninfo

from memoryhub.journal.forget import scrub, wal
from memoryhub.journal.writing.writer import writer
from memoryhub.models.keys import SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import ThreadLabel
from memoryhub.queries.scan import surface_rows
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import keys
from tests.cast import readers
from tests.cast.factories import make_thread

SECONDS = 0.3
#: Where nobody is to be in the way: other tests of the same server write as well.
PATIENCE = 30.0


@pytest.fixture
def label() -> str:
    """Return a name that occurs nowhere else."""
    return secrets.token_hex(16)


def forgotten(agent: Agent, label: str) -> None:
    """Delete a row with the label, which is then in every remainder of rows."""
    with_more = {"more": "m" * 64, "short": "s"}
    make_thread(agent, labels={"kept": label, **with_more})
    ThreadLabel.objects.all().delete()
    # What the journal and the thread say of it goes as forgetting does it.
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "UPDATE memoryhub_thread SET labels = '{}', status = 'importing'"
        )
        cursor.execute("DELETE FROM memoryhub_event")
        cursor.execute("DELETE FROM memoryhub_snapshot")


def in_files(label: str) -> set[str]:
    return {*readers.files_with(label.encode())}


@pytest.mark.no_replay
@pytest.mark.usefixtures("sqlite")
@pytest.mark.django_db(transaction=True)
def test_deleted_row_is_in_no_file_after_a_scrub(agent: Agent, label: str) -> None:
    # SQLite brings a long log of earlier tests into the database when it likes.
    assert wal.truncate(seconds=PATIENCE)
    forgotten(agent, label)
    assert in_files(label) == {"-wal"}
    assert scrub.scrub(seconds=PATIENCE) == ""
    assert in_files(label) == set()


@pytest.mark.no_replay
@pytest.mark.usefixtures("sqlite")
@pytest.mark.django_db(transaction=True)
def test_reader_of_another_process_is_waited_for(agent: Agent, label: str) -> None:
    make_thread(agent, "another")
    with readers.hold_snapshot():
        forgotten(agent, label)
        assert scrub.scrub(seconds=SECONDS) == "reader"
        assert in_files(label)
    assert scrub.scrub(seconds=PATIENCE) == ""
    assert in_files(label) == set()


@pytest.mark.no_replay
@pytest.mark.usefixtures("sqlite")
@pytest.mark.parametrize("mode", ["FAST", "OFF"])
@pytest.mark.django_db(transaction=True)
def test_scrub_fails_without_secure_delete(mode: str) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(f"PRAGMA secure_delete = {mode}")
        try:
            assert scrub.scrub(seconds=SECONDS) == "store"
        finally:
            cursor.execute("PRAGMA secure_delete = ON")
    assert scrub.scrub(seconds=PATIENCE) == ""


@pytest.mark.no_replay
@pytest.mark.usefixtures("sqlite")
@pytest.mark.django_db(transaction=True)
def test_writers_own_connection_is_asked_as_well(agent: Agent) -> None:
    def fast() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("PRAGMA secure_delete = FAST")

    writer.start()
    writer.put_work(fast).result()
    assert scrub.scrub(seconds=SECONDS) == "store"
    writer.stop()
    assert scrub.scrub(seconds=PATIENCE) == ""


# PostgreSQL


def samples(label: str) -> bool:
    held = b"".join(surface_rows.iter_samples("default"))
    return label.encode() in held


@pytest.mark.no_replay
@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_scrub_removes_samples_of_deleted_rows(agent: Agent, label: str) -> None:
    make_thread(agent, labels={f"l{n}": label for n in range(8)})
    with connections["default"].cursor() as cursor:
        cursor.execute("ANALYZE memoryhub_threadlabel")
    assert samples(label)
    forgotten_label = secrets.token_hex(16)
    assert not samples(forgotten_label)
    ThreadLabel.objects.all().delete()
    assert samples(label)
    # The table is empty, of which ANALYZE alone would leave them as they are.
    assert scrub.scrub(seconds=PATIENCE) == ""
    assert not samples(label)


@pytest.mark.no_replay
@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_scrub_waits_for_readers_that_see_old_rows(agent: Agent, label: str) -> None:
    make_thread(agent, "another")
    with readers.hold_snapshot():
        forgotten(agent, label)
        assert scrub.scrub(seconds=SECONDS) == "reader"
    assert scrub.scrub(seconds=PATIENCE) == ""


@pytest.mark.no_replay
@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_scrub_waits_for_a_writer_that_pauses(agent: Agent, label: str) -> None:
    """The writer has no snapshot between statements; VACUUM clears nothing after it."""
    where = readers.address(connections["default"])
    with psycopg.connect(where) as other:
        other.execute("SELECT pg_current_xact_id()")
        forgotten(agent, label)
        assert scrub.scrub(seconds=SECONDS) == "reader"
        assert scrub.rewrite(seconds=SECONDS) == "reader"
        assert in_tables(label.encode())
        other.rollback()
    assert scrub.scrub(seconds=PATIENCE) == ""
    assert scrub.rewrite(seconds=PATIENCE) == ""
    assert not in_tables(label.encode())


@pytest.mark.no_replay
@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_writer_in_another_database_keeps_no_key(agent: Agent) -> None:
    """The writer's number is in every snapshot of the server: a rewritten table keeps
    dead rows, and the rewrite says so.
    """
    subject = make_thread(agent).subject_id
    (wrapped,) = keys.list_wrapped(subject)
    table = SubjectKey._meta.db_table
    where = readers.address(connections["default"])
    with psycopg.connect(conninfo.make_conninfo(where, dbname="postgres")) as other:
        other.execute("SELECT pg_current_xact_id()")
        keys.destroy(subject, erasure=uuid4(), at=clock.now())
        with connections["keys"].cursor() as cursor:
            assert scrub._vacuum_full(cursor, table)
        assert in_tables(wrapped, alias="keys")
        assert scrub.scrub(seconds=PATIENCE) == ""
        assert not in_tables(wrapped, alias="keys")
        assert scrub.rewrite(seconds=PATIENCE) == ""
        other.rollback()


@pytest.mark.no_replay
@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_scrub_waits_for_a_short_reader_of_keys(agent: Agent) -> None:
    """The reader's snapshot reaches back to the writer elsewhere."""
    subject = make_thread(agent).subject_id
    (wrapped,) = keys.list_wrapped(subject)
    table = SubjectKey._meta.db_table
    where = readers.address(connections["keys"])
    elsewhere = conninfo.make_conninfo(where, dbname="postgres")
    with psycopg.connect(elsewhere) as other, psycopg.connect(where) as reader:
        other.execute("SELECT pg_current_xact_id()")
        keys.destroy(subject, erasure=uuid4(), at=clock.now())
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        with connections["keys"].cursor() as cursor:
            assert not scrub._rewrite_table(cursor, table, SECONDS)
            assert in_tables(wrapped, alias="keys")
            gone = threading.Timer(SECONDS, reader.rollback)
            gone.start()
            assert scrub._rewrite_table(cursor, table, PATIENCE)
        gone.join()
        other.rollback()
    assert not in_tables(wrapped, alias="keys")


@pytest.mark.no_replay
@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_locked_table_is_waited_for(
    acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "_LOCK_MS", 100)
    where = readers.address(connections["default"])
    with psycopg.connect(where) as other:
        other.execute("LOCK TABLE memoryhub_slot IN SHARE UPDATE EXCLUSIVE MODE")
        assert scrub.scrub(seconds=SECONDS) == "vacuum"
        assert scrub.rewrite() == "vacuum"
        other.rollback()
    assert scrub.scrub(seconds=PATIENCE) == ""
    with connections["default"].cursor() as cursor:
        for name, usual in (("statement_timeout", "5s"), ("lock_timeout", "0")):
            cursor.execute(f"SHOW {name}")
            assert cursor.fetchone() == (usual,)


@pytest.mark.no_replay
@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_rewrite_leaves_nothing_in_the_tables_files(agent: Agent, label: str) -> None:
    forgotten(agent, label)
    assert in_tables(label.encode())
    assert scrub.scrub(seconds=PATIENCE) == ""
    assert scrub.rewrite() == ""
    assert not in_tables(label.encode())


def in_tables(data: bytes, *, alias: str = "default") -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute("CHECKPOINT")
        cursor.execute(
            "SELECT current_setting('data_directory'), oid::text FROM pg_database "
            "WHERE datname = current_database()"
        )
        directory, oid = cursor.fetchone()
        folder = Path(directory, "base", oid)
    assert folder.is_dir()
    return any(data in path.read_bytes() for path in folder.iterdir())


# Both


@pytest.mark.django_db(transaction=True)
def test_scrub_is_repeatable_and_keeps_live_rows(agent: Agent, label: str) -> None:
    make_thread(agent, labels={"kept": label})
    for _ in range(2):
        assert scrub.scrub(seconds=PATIENCE) == ""
        assert scrub.rewrite() == ""
    assert ThreadLabel.objects.get().value == label


@pytest.mark.django_db
def test_scrub_refuses_to_run_inside_a_transaction() -> None:
    with pytest.raises(AssertionError):
        scrub.scrub(seconds=0)


def test_scrub_retry_pauses_grow_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    time = 0.0

    def sleep(seconds: float) -> None:
        nonlocal time
        pauses.append(seconds)
        time += seconds

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: time)
    monkeypatch.setattr(wal, "time", clock)
    assert len(list(wal.iter_polls(4.0))) == len(pauses) + 1
    assert pauses[:5] == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == 1.0
    assert sum(pauses) == pytest.approx(4.0)
    pauses.clear()
    assert len(list(wal.iter_polls(0))) == 1
    assert pauses == []
