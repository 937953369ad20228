"""Backups as folders: a copy of the running instance, and a restore elsewhere.

A backup has `memoryhub` and `keys`: SQLite's files, or archives of `pg_dump`. It may
have `kek.json`, `ledger/` and `cold/`; the running instance lends what is missing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import dj_database_url
from django.conf import settings
from django.db import connections
from django.db.models import Sum

from memoryhub.models.cold import ColdObject
from memoryhub.vault.keys import cold_payloads

#: Stem of each database's file in a backup. The memory comes first: a copy of the keys
#: that is newer opens all of it.
STEMS: Final[Mapping[str, str]] = MappingProxyType(
    {"default": "memoryhub", "keys": "keys"}
)
#: Alias by which this process reads the restored memory database.
SCRATCH: Final = "scratch"
#: Variables that say where an instance is, whom it tells, and where its output goes.
_PLACES: Final = (
    *("DATABASE_URL", "KEYS_DATABASE_URL", "REDIS_URL", "MEMORYHUB_DATA"),
    *("MEMORYHUB_KEK_FILE", "MEMORYHUB_LEDGER", "MEMORYHUB_LEDGER_MIRROR"),
    *("MEMORYHUB_LOGS", "MEMORYHUB_COLD_DAYS", "MEMORYHUB_COLD_STORAGE"),
    "MEMORYHUB_TRACES",
)


class BackupUnusableError(Exception):
    """A backup that can't be made or restored; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPlace:
    """Folders of a backup's two databases, which may be one folder."""

    memory: Path
    keys: Path

    def get_file(self, alias: str) -> Path:
        folder = self.memory if alias == "default" else self.keys
        suffix = "sqlite3" if is_sqlite() else "dump"
        return folder / f"{STEMS[alias]}.{suffix}"

    def list_files(self) -> list[Path]:
        """List the files to restore. Raises BackupUnusableError where one is absent."""
        found = list[Path]()
        for file in map(self.get_file, STEMS):
            if not file.is_file():
                raise BackupUnusableError(f"{file} is not there")
            # Without its log a copy of SQLite's file lacks what was written last.
            sides = [
                file.with_name(f"{file.name}{end}") for end in ("-wal", "-journal")
            ]
            found += [file, *filter(Path.is_file, sides)]
        return found

    def describe_files(self) -> list[dict[str, Any]]:
        """Describe each file to restore: path, bytes, SHA-256. Cost: reads them all."""
        found = list[dict[str, Any]]()
        for file in self.list_files():
            with file.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            size = file.stat().st_size
            found.append({"path": str(file), "bytes": size, "sha256": digest})
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchHub:
    """Data folder of a restored instance, and on PostgreSQL its two databases."""

    data: Path
    urls: Mapping[str, str]

    def build_environment(self) -> dict[str, str]:
        """Build the environment of commands that work on this instance alone."""
        kept = {
            name: value for name, value in os.environ.items() if name not in _PLACES
        }
        names = {"default": "DATABASE_URL", "keys": "KEYS_DATABASE_URL"}
        own = {"MEMORYHUB_DATA": str(self.data), "MEMORYHUB_BALLAST_MIB": "0"}
        urls = {names[alias]: url for alias, url in self.urls.items()}
        return {**kept, **own, **urls, "PYTHONUNBUFFERED": "1"}

    def describe_database(self, alias: str) -> dict[str, Any]:
        """Describe a restored database as Django's settings do."""
        base = connections["default"].settings_dict
        if not self.urls:
            return {**base, "NAME": str(self.data / f"{STEMS[alias]}.sqlite3")}
        parsed = dj_database_url.parse(self.urls[alias])
        return {**base, **parsed, "OPTIONS": dict(parsed.get("OPTIONS", {}))}

    def measure(self) -> int:
        """Return the bytes of the restored databases."""
        found = 0
        for alias in STEMS:
            with self.connect(alias) as scratch:
                found += _measure_database(scratch)
        return found

    @contextmanager
    def connect(self, alias: str) -> Iterator[str]:
        """Yield an alias of this process for a restored database."""
        connections.settings[SCRATCH] = self.describe_database(alias)
        try:
            yield SCRATCH
        finally:
            connections[SCRATCH].close()
            del connections[SCRATCH], connections.settings[SCRATCH]

    def require_empty(self) -> None:
        """Raise BackupUnusableError if a database has a table already."""
        for alias, url in self.urls.items():
            with (
                self.connect(alias) as scratch,
                connections[scratch].cursor() as cursor,
            ):
                if connections[scratch].introspection.table_names(cursor):
                    name = dj_database_url.parse(url).get("NAME")
                    raise BackupUnusableError(f"the database {name} is not empty")

    def empty(self) -> None:
        """Drop all tables and functions of the databases."""
        for alias in self.urls:
            with (
                self.connect(alias) as scratch,
                connections[scratch].cursor() as cursor,
            ):
                connection = connections[scratch]
                names = connection.introspection.table_names(cursor)
                for name in map(connection.ops.quote_name, names):
                    cursor.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
                cursor.execute(
                    "SELECT oid::regprocedure FROM pg_proc "
                    "WHERE pronamespace = 'public'::regnamespace"
                )
                for (function,) in cursor.fetchall():
                    cursor.execute(f"DROP ROUTINE IF EXISTS {function} CASCADE")


def is_sqlite() -> bool:
    """Return whether instances here keep their databases in SQLite's files."""
    return str(connections["default"].vendor) == "sqlite"


def measure_instance() -> int:
    """Return the bytes of the running instance's databases."""
    return sum(map(_measure_database, STEMS))


def measure_cold_storage(own: Path | None) -> int:
    """Return the bytes of a backup's cold storage, else of the running instance's."""
    if own is not None and own.is_dir():
        return sum(file.stat().st_size for file in own.rglob("*") if file.is_file())
    found: int | None = ColdObject.objects.aggregate(sum=Sum("bytes"))["sum"]
    return found or 0


def _measure_database(alias: str) -> int:
    if is_sqlite():
        return Path(str(connections[alias].settings_dict["NAME"])).stat().st_size
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def make_backup(folder: Path) -> BackupPlace:
    """Copy the databases of the running instance to a new folder.

    Each copy is of one moment. Writers of the memory go on meanwhile; on SQLite writers
    of keys wait. Raises BackupUnusableError, OSError and sqlite3.Error.
    """
    folder.mkdir(mode=0o700)
    place = BackupPlace(memory=folder, keys=folder)
    for alias in STEMS:
        connection, file = connections[alias], place.get_file(alias)
        if is_sqlite():
            connection.ensure_connection()
            with closing(sqlite3.connect(file)) as target:
                connection.connection.backup(target)
        else:
            described = connection.settings_dict
            options = ["--format=custom", "--no-owner", f"--file={file}"]
            _run_program("pg_dump", described, options)
    return place


def restore_backup(place: BackupPlace, scratch: ScratchHub, *, ring: bool) -> None:
    """Restore a backup into a new instance; with `ring`, its key ring as well.

    The ledger is the running instance's, as after every restore: it knows what was
    erased since. Raises BackupUnusableError, ColdStorageError and OSError.
    """
    scratch.data.mkdir(mode=0o700)
    files = place.list_files()
    if scratch.urls:
        for alias in STEMS:
            described = scratch.describe_database(alias)
            options = ["--no-owner", "--no-privileges", "--exit-on-error"]
            options.append(str(place.get_file(alias)))
            _run_program("pg_restore", described, options, named="--dbname")
    else:
        for file in files:
            shutil.copyfile(file, scratch.data / file.name)
        for file in map(place.get_file, STEMS):
            _require_whole(scratch.data / file.name, source=file)
    own = place.memory / "kek.json"
    if ring:
        source = own if own.is_file() else settings.KEK_FILE
        shutil.copyfile(source, scratch.data / "kek.json")
    _copy_ledger(place.memory / "ledger", scratch.data / "ledger")
    _copy_cold_storage(place.memory / "cold", scratch.data / "cold")


def _require_whole(copy: Path, *, source: Path) -> None:
    """Raise BackupUnusableError if SQLite finds a copy damaged. Reads all of it."""
    try:
        with closing(sqlite3.connect(copy)) as opened:
            (found,) = opened.execute("PRAGMA integrity_check(1)").fetchone()
            (tables,) = opened.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as failure:
        found, tables = str(failure), 0
    if found != "ok" or not tables:
        reason = "it is empty" if found == "ok" else found.splitlines()[-1]
        raise BackupUnusableError(f"{source} is damaged or cut short: {reason}")


def _copy_ledger(own: Path, target: Path) -> None:
    source = settings.LEDGER if settings.LEDGER.is_dir() else own
    target.mkdir(mode=0o700)
    # Lines of erasures, anchors, and public keys, which are the newest ones here.
    for file in source.glob("*.json*"):
        shutil.copyfile(file, target / file.name)


def _copy_cold_storage(own: Path, target: Path) -> None:
    """Copy objects: a replay of erasures deletes some, which must be copies."""
    if own.is_dir():
        shutil.copytree(own, target, copy_function=shutil.copyfile)
        return
    names = cold_payloads.list_names(new=True)
    if not names:
        return
    target.mkdir(mode=0o700)
    (target / cold_payloads.MARK).touch()
    for name in names:
        with (target / name).open("wb") as file:
            file.writelines(cold_payloads.iter_chunks(name))


def _run_program(
    name: str, described: dict[str, Any], options: Sequence[str], *, named: str = ""
) -> None:
    """Run a program of PostgreSQL on a database, with its password in no argument."""
    client: Any = connections["default"].client
    file = options[-1].removeprefix("--file=")
    words, variables = client.settings_to_cmd_args_env(described, [])
    *where, database = words[1:]
    # pg_restore takes a file where pg_dump takes a database.
    target = [f"{named}={database}"] if named else [database]
    command = [name, *where, *target, *options]
    try:
        done = subprocess.run(  # noqa: S603  # no shell; words of ours and of settings
            command,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise BackupUnusableError(f"{name} of PostgreSQL is not on PATH") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise BackupUnusableError(f"{name} failed on {file}: {last}")
