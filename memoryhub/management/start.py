"""Start-up: brings both databases up to date and refuses unsafe settings."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from memoryhub.distribution import PROGRAM
from memoryhub.errors import (
    LedgerBrokenError,
    LedgerUnwritableError,
    StartRefusedError,
)
from memoryhub.management import triggers
from memoryhub.models.projects import Project
from memoryhub.services.access import operators
from memoryhub.services.forget import replays
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.vault.keys import keyring
from memoryhub.vault.proof import anchors
from memoryhub.workers import heartbeats

if sys.platform != "win32":
    import fcntl
    import resource

ALIASES = ("default", "keys")
SECRET_LENGTH = 50
SECRET_VARIETY = 5
_SYNCHRONOUS = {"FULL": 2, "NORMAL": 1}
#: Key of the advisory lock, any number; processes that start together migrate in turn.
_MIGRATING = 0x4D48
#: Seconds for which a start waits for another without a word.
_QUIET_SECONDS = 2.0
#: Format of the databases, and its first migration: a database with other migrations
#: only is older than the first release and cannot be upgraded.
FORMAT = 3
FORMAT_BEGINS = "0001_tables"
#: Names of migrations that only add what an earlier version need not know: tables,
#: indexes, and columns that may be empty or that the database fills.
ADDING = re.compile(r"\d{4}_add_")
#: Patterns of private files: databases with their journals, key rings, ledgers.
_PRIVATE = ("*.sqlite3*", "*.json", "*.jsonl")


def prepare(*, held_back: bool = False) -> None:
    """Make the instance ready for use, or raise StartRefusedError.

    Migrates both databases, creates a first key ring, and ensures that an operator can
    sign in to every project. Raises ErasuresToReplayError if a restore brought erased
    data back, unless `held_back` says that the caller handles that itself.
    """
    harden()
    refuse_readable_files()
    with _hold_data_folder():
        for alias in ALIASES:
            migrate(alias)
            refuse_sqlite(alias)
        triggers.refuse_changed()
        # Again, since a first start has just created the files.
        refuse_readable_files()
        keyring.prepare(empty=not Project.objects.exists())
        operators.ensure_default()
    # The clock is checked before any use of its time.
    heartbeats.compare()
    # A fault of the anchors does not stop the start: `verify --all` and Health show it.
    with suppress(LedgerBrokenError, LedgerUnwritableError):
        anchors.recover()
    replays.fence_and_count()
    if not held_back:
        maintenance.require_none()


def prepare_existing(*, held_back: bool = False) -> None:
    """Make an instance ready that has begun before; otherwise as `prepare`.

    Raises StartRefusedError with the folder's name instead of beginning another hub.
    """
    require_hub()
    prepare(held_back=held_back)


def require_hub() -> None:
    """Raise StartRefusedError with the place where there is no hub yet."""
    if is_new():
        where = f"in {settings.DATA_DIR}"
        if connections["default"].vendor != "sqlite":
            where = "in the database of DATABASE_URL"
        raise StartRefusedError(
            f"hub_missing: there is no hub {where} yet. Another folder is named in "
            f"MEMORYHUB_DATA; `{PROGRAM} create_project NAME` begins a hub here"
        )


def is_new() -> bool:
    """Return whether nothing of an instance is in its database yet; makes no file."""
    connection = connections["default"]
    # To connect would make the file.
    file = Path(str(connection.settings_dict["NAME"]))
    if connection.vendor == "sqlite" and not file.exists():
        return True
    return not MigrationRecorder(connection).applied_migrations()


def harden() -> None:
    """Restrict new files to this user, and disable core dumps, which contain memory."""
    os.umask(0o077)
    if sys.platform != "win32":
        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_public(host: str) -> None:
    """Refuse a public address with settings meant for one's own machine."""
    if is_loopback(host):
        return
    secret = settings.SECRET_KEY
    if secret == settings.DEFAULT_SECRET_KEY:
        raise StartRefusedError(
            "secret_default: set MEMORYHUB_SECRET_KEY to 50 random characters or more "
            "before others can reach the server"
        )
    if len(secret) < SECRET_LENGTH or len(set(secret)) < SECRET_VARIETY:
        raise StartRefusedError(
            "secret_short: MEMORYHUB_SECRET_KEY has fewer than 50 characters or says "
            "the same one over and over; take a random one"
        )
    if settings.DEBUG:
        raise StartRefusedError(
            "debug_public: MEMORYHUB_DEBUG shows internals to whoever asks; unset it, "
            "or bind to 127.0.0.1"
        )
    if settings.TESTING:
        raise StartRefusedError(
            "testing_public: MEMORYHUB_TESTING lets tests change the clock; unset it, "
            "or bind to 127.0.0.1"
        )
    if "*" in settings.ALLOWED_HOSTS:
        raise StartRefusedError(
            "hosts_any: MEMORYHUB_HOSTS has `*`; name the hosts the server is called by"
        )


def refuse_readable_files() -> None:
    """Refuse data that other users of the machine can read, or folders they can write
    to."""
    if os.name != "posix":
        return
    for folder in _list_private_folders():
        _refuse_mode(folder, 0o022, "write to", "700")
    for path in _iter_private_files():
        _refuse_mode(path, 0o077, "open", "600")


def _refuse_mode(path: Path, forbidden: int, what: str, right: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & forbidden:
        raise StartRefusedError(
            f"data_mode: others may {what} {path} (mode {mode:04o}); "
            f"run `chmod {right}` on it"
        )


def _list_private_folders() -> list[Path]:
    folders = (settings.DATA_DIR, settings.LEDGER, settings.LEDGER_MIRROR)
    return [folder for folder in folders if folder and folder.is_dir()]


def _iter_private_files() -> Iterator[Path]:
    for folder in _list_private_folders():
        for pattern in _PRIVATE:
            found = sorted(folder.glob(pattern))
            yield from (path for path in found if path.is_file())


def migrate(alias: str) -> None:
    """Migrate a database's schema to this code's version; never down.

    A newer schema that only adds is left as it is, so that processes of two versions
    can serve one hub during an upgrade. Raises StartRefusedError for any other.
    """
    with _hold_migration_lock(alias):
        refuse_old_format(alias)
        executor = MigrationExecutor(connections[alias])
        applied = MigrationRecorder(connections[alias]).applied_migrations()
        unknown = set(applied) - set(executor.loader.disk_migrations or ())
        newer = sorted(
            name
            for app, name in unknown
            if app == "memoryhub" and not ADDING.match(name)
        )
        if newer:
            raise StartRefusedError(
                f"schema_newer: the database {alias} was migrated by a newer version "
                f"({newer[-1]}); run that version or restore a backup"
            )
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", database=alias, verbosity=0, interactive=False)


def refuse_old_formats() -> None:
    """Refuse old formats, for commands that only read an instance."""
    for alias in ALIASES:
        refuse_old_format(alias)


def refuse_old_format(alias: str) -> None:
    applied = MigrationRecorder(connections[alias]).applied_migrations()
    ours = {name for app, name in applied if app == "memoryhub"}
    if ours and FORMAT_BEGINS not in ours:
        raise StartRefusedError(
            f"format_old: the database {alias} is older than format {FORMAT}, from "
            "before the first release, and can't be brought up to it; begin with a new "
            "folder (MEMORYHUB_DATA) or a new database"
        )


def old_formats(
    app_configs: object, databases: Collection[str] | None = None, **options: object
) -> list[CheckMessage]:
    """Report old formats before Django's `migrate`, which would fail on old tables."""
    found = list[CheckMessage]()
    for alias in databases or ():
        try:
            refuse_old_format(alias)
        except StartRefusedError as refused:
            found.append(Error(refused.reason, id="memoryhub.E003"))
    return found


@contextmanager
def _hold_data_folder() -> Iterator[None]:
    """On SQLite, lock the data folder against other processes that start."""
    # Databases of a server may go with a folder on a network, which has no such lock.
    if sys.platform == "win32" or connections["default"].vendor != "sqlite":
        yield
        return
    folder = os.open(settings.DATA_DIR, os.O_RDONLY)
    try:
        notice = Timer(_QUIET_SECONDS, _tell_of_wait)
        notice.start()
        try:
            # The lock ends with the descriptor, even if the process dies.
            fcntl.flock(folder, fcntl.LOCK_EX)
        finally:
            notice.cancel()
        yield
    finally:
        os.close(folder)


def _tell_of_wait() -> None:
    sys.stderr.write(
        f"Another MemoryHub command starts in {settings.DATA_DIR}: this one waits "
        "until it has.\n"
    )


@contextmanager
def _hold_migration_lock(alias: str) -> Iterator[None]:
    """On PostgreSQL, hold a lock against other migrating processes, without a time
    limit."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [_MIGRATING])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_MIGRATING])
            cursor.execute("RESET statement_timeout")


def refuse_sqlite(alias: str) -> None:
    """Refuse SQLite settings that the build or the file system did not accept."""
    connection = connections[alias]
    if connection.vendor != "sqlite":
        return
    chosen = settings.ENV.MEMORYHUB_SQLITE_SYNCHRONOUS
    full = _SYNCHRONOUS[chosen if alias == "default" else "FULL"]
    wanted: dict[str, tuple[object, ...]] = {
        "journal_mode": ("wal",) if alias == "default" else ("delete",),
        "synchronous": (full,),
        "secure_delete": (1,),
        "foreign_keys": (1,),
    }
    with connection.cursor() as cursor:
        for pragma, values in wanted.items():
            cursor.execute(f"PRAGMA {pragma}")
            if cursor.fetchone()[0] not in values:
                raise StartRefusedError(
                    f"sqlite_pragma: the database {alias} does not keep PRAGMA "
                    f"{pragma}={values[0]}; is it on a local disk?"
                )
