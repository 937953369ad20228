from __future__ import annotations

import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_client
from django.conf import settings as configured
from django.db import connections
from pytest_django import Settings

from memoryhub.queries.scan import redis_values, surface_files, surface_rows, surfaces
from memoryhub.queries.scan.surface_kinds import SurfaceKind
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, make_thread
from tests.harness import parts

POSTGRES = "postgresql" in configured.DATABASES["default"]["ENGINE"]


@pytest.fixture
def marker() -> str:
    """Return a text that occurs nowhere else."""
    return secrets.token_hex(16)


def list_places(marker: str, **given: object) -> dict[SurfaceKind, set[str]]:
    """Return the places that hold the marker, by the kind of surface."""
    found: dict[SurfaceKind, set[str]] = {}
    for surface in surfaces.iter_surfaces(**given):  # type: ignore[arg-type]  # as is
        if marker.encode() in b"".join(surface.read()):
            found.setdefault(surface.kind, set()).add(surface.place)
    return found


# Files


@pytest.mark.django_db
def test_every_folder_is_looked_through(
    settings: Settings, tmp_path: Path, marker: str
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    settings.LEDGER = settings.DATA_DIR / "ledger"
    settings.LEDGER_MIRROR = tmp_path / "mirror"
    settings.LOGS = tmp_path / "logs"
    settings.BALLAST = settings.DATA_DIR / "ballast"
    settings.STATIC_ROOT = settings.DATA_DIR / "static"
    wanted = {
        settings.DATA_DIR / "a" / "deep" / "file": SurfaceKind.FILE,
        settings.LEDGER / "erasures.jsonl": SurfaceKind.LEDGER,
        settings.LEDGER_MIRROR / "mirrored.jsonl": SurfaceKind.LEDGER,
        settings.LOGS / "server.log.1": SurfaceKind.LOG,
        settings.BALLAST: None,
        settings.STATIC_ROOT / "base.css": None,
    }
    for path in wanted:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"some text and {marker}")
    temporary = Path(tempfile.gettempdir(), f"memoryhub-{marker[:8]}")
    temporary.write_text(marker)
    try:
        found = list_places(marker)
    finally:
        temporary.unlink()
    assert found == {
        SurfaceKind.FILE: {"file"},
        SurfaceKind.LEDGER: {"erasures.jsonl", "mirrored.jsonl"},
        SurfaceKind.LOG: {"server.log.1"},
        SurfaceKind.TEMPORARY: {temporary.name},
    }


@pytest.mark.django_db
def test_names_of_files_are_looked_at_too(
    settings: Settings, tmp_path: Path, marker: str
) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / f"export-{marker}.zip").touch()
    assert list_places(marker) == {SurfaceKind.NAMES: {"names of files"}}


def test_log_file_surface_has_its_owner(tmp_path: Path, marker: str) -> None:
    code = (
        "import sys; from memoryhub.queries.scan import surface_files;"
        "sys.stdout.write('\\n'.join(map(str, surface_files.list_logs())))"
    )
    log = tmp_path / "server.log"
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
    with log.open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", f"import django; django.setup(); {code}"],
            env=env,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            check=True,
        )
    assert done.stdout == str(log)


def test_missing_surface_file_reads_as_empty(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert list(surface_files.read(gone)) == []
    assert list(surface_files.read_in_subprocess(gone)) == []
    assert surface_files.get_size(gone) == 0


def test_unreadable_surface_file_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="can't be read"):
        list(surface_files.read_in_subprocess(tmp_path))


# SQLite's locks

_TRY = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    other.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(1)
"""


def is_locked(path: Path) -> bool:
    """Tell whether another process is kept from writing."""
    done = subprocess.run([sys.executable, "-c", _TRY, str(path)], check=False)
    return done.returncode == 1


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Path]:
    """Yield a database that this process writes to."""
    path = tmp_path / "a.sqlite3"
    ours = sqlite3.connect(path, isolation_level=None)
    ours.execute("PRAGMA journal_mode = WAL")
    ours.execute("CREATE TABLE a (b)")
    ours.execute("BEGIN IMMEDIATE")
    yield path
    ours.close()


def test_reading_database_files_elsewhere_keeps_their_locks(writing: Path) -> None:
    files = [writing, *(Path(f"{writing}{side}") for side in ("-wal", "-shm"))]
    assert is_locked(writing)
    for path in files:
        assert (
            len(b"".join(surface_files.read_in_subprocess(path))) == path.stat().st_size
        )
    assert is_locked(writing)
    # Read here, as any other file is, two processes would write at once.
    for path in files:
        assert list(surface_files.read(path))
    assert not is_locked(writing)


# Rows


@pytest.mark.django_db(transaction=True)
def test_every_row_of_every_table_is_given_out(agent: Agent, marker: str) -> None:
    thread = make_thread(agent, labels={"kept": marker})
    found = list_places(marker)
    assert SurfaceKind.ROWS not in found
    assert found[SurfaceKind.CALLED] == {
        *("memoryhub_thread", "memoryhub_threadlabel", "memoryhub_event")
    }
    assert SurfaceKind.OWN_ROWS not in found
    hers = list_places(marker, subjects=[thread.subject_id])
    by_thread = list_places(marker, threads=[thread.id])
    assert hers == by_thread
    assert hers[SurfaceKind.OWN_ROWS] == {
        *("memoryhub.Thread", "memoryhub.ThreadLabel", "memoryhub.Event")
    }
    other = make_thread(agent, "t-2", user_id="mia")
    assert SurfaceKind.OWN_ROWS not in list_places(marker, subjects=[other.subject_id])
    assert SurfaceKind.OWN_ROWS not in list_places(marker, threads=[other.id])


@pytest.mark.django_db(transaction=True)
def test_sealed_bytes_are_given_out_as_they_are(agent: Agent) -> None:
    thread = make_thread(agent)
    append(agent, thread.name, "some content")
    event = thread.events.exclude(payload=None).get()
    assert event.payload is not None
    rows = next(
        rows
        for rows in surface_rows.list_tables("default")
        if rows.table == "memoryhub_event" and rows.kind is SurfaceKind.ROWS
    )
    assert bytes(event.payload) in b"".join(surface_rows.iter_values(rows))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("alias", ["default", "keys"])
def test_table_that_nobody_listed_is_given_out_too(alias: str, marker: str) -> None:
    kind = "bytea" if POSTGRES else "BLOB"
    long = f"{marker} {'and more of it ' * 20_000}{marker[::-1]}"
    with connections[alias].cursor() as cursor:
        cursor.execute(f'CREATE TABLE "un""listed" (n integer, raw {kind}, words text)')
        try:
            cursor.execute(
                'INSERT INTO "un""listed" VALUES (1, %s, %s)',
                [marker.encode() * 3_000, long],
            )
            for text in (marker, marker[::-1], marker * 3_000, long[-9_000:]):
                found = list_places(text)
                assert found[SurfaceKind.UNLISTED] == {'un"listed'}
        finally:
            cursor.execute('DROP TABLE "un""listed"')


@pytest.mark.django_db
def test_schema_words_are_told_apart_from_names() -> None:
    for alias, table in {"default": "thread", "keys": "subjectkey"}.items():
        words = b"\0".join(surface_rows.iter_schema(alias))
        assert f"memoryhub_{table}".encode() in words
        assert b"0001_tables" in words


# Redis


@pytest.fixture
def redis_url() -> Iterator[str]:
    try:
        with parts.redis() as urls:
            yield urls["REDIS_URL"]
    except parts.MissingPartError as missing:
        pytest.skip(str(missing))


def test_values_of_every_type_are_given_out(redis_url: str, marker: str) -> None:
    with redis_client.Redis.from_url(redis_url) as client:
        client.set(f"key-{marker}", "1")
        client.set("string", f"2-{marker}")
        client.rpush("list", "other", f"3-{marker}")
        client.sadd("set", f"4-{marker}")
        client.zadd("zset", {f"5-{marker}": 1.5})
        client.hset("hash", f"6-{marker}", f"7-{marker}")
        client.xadd("stream", {f"8-{marker}": f"9-{marker}"})
    data = b"\0".join(redis_values.iter_values(redis_url))
    wanted = {f"key-{marker}", *(f"{n}-{marker}" for n in range(2, 10))}
    assert {each for each in wanted if each.encode() in data} == wanted


def test_redis_that_is_away_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="redis"):
        list(redis_values.iter_values(f"unix://{tmp_path / 'none.sock'}"))
