"""Scrubbing: removal of deleted bytes from the databases' files, for each engine.

Runs outside any transaction, on the caller's own connections. Returns the word for the
obstacle, if there is one; the caller then tries again later. See decision 32.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from memoryhub.journal.forget import wal
from memoryhub.journal.writing.writer import run
from memoryhub.models.privacy import Fate
from memoryhub.vault.registry import rights

ALIASES: Final = ("default", "keys")
#: Seconds to wait for other transactions, until `reader` is reported.
SECONDS: Final = 60.0
READER, VACUUM, DISK, STORE = "reader", "vacuum", "disk", "store"
#: PostgreSQL denies our role the statement; waiting alone does not help.
RIGHTS: Final = "rights"

_LOCK_MS: Final = 5_000
_NUMBER: Final = re.compile(r"\d+")
_ON: Final = 1
#: PostgreSQL's error class for exhausted disk, memory or connections, and its error for
#: a missing privilege.
_FULL, _DENIED = "53", "42501"

_GIN_INDEXES = """
    SELECT index.oid::regclass::text FROM pg_class index
      JOIN pg_am method ON method.oid = index.relam
      JOIN pg_namespace space ON space.oid = index.relnamespace
     WHERE index.relkind = 'i' AND method.amname = 'gin' AND space.nspname !~ '^pg_'
       AND pg_has_role(index.relowner, 'USAGE')
"""
#: Whether a transaction of this database is older: VACUUM keeps the rows that it may
#: see. A transaction that wrote and pauses between two statements has no snapshot, but
#: a transaction id. A plain VACUUM blocks nobody, whatever it reads.
_OLDER = """
    SELECT EXISTS (
        SELECT 1 FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()
           AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
           AND greatest(age(backend_xmin), age(backend_xid))
               > age(%s::text::xid8::xid))
        OR EXISTS (
        SELECT 1 FROM pg_replication_slots WHERE age(xmin) > age(%s::text::xid8::xid))
        OR EXISTS (
        SELECT 1 FROM pg_prepared_xacts WHERE database = current_database())
"""
#: Columns with statistics samples, and the clause that restates each one's type.
_SAMPLED = """
    SELECT format('ALTER COLUMN %%I TYPE %%s', a.attname,
                  format_type(a.atttypid, a.atttypmod))
           || CASE WHEN c.oid IS NULL THEN ''
                   ELSE format(' COLLATE %%I.%%I', space.nspname, c.collname) END
      FROM pg_attribute a
      JOIN pg_stats kept ON kept.attname = a.attname
       AND format('%%I.%%I', kept.schemaname, kept.tablename)::regclass = a.attrelid
      JOIN pg_type type ON type.oid = a.atttypid
      LEFT JOIN pg_collation c ON c.oid = a.attcollation
       AND a.attcollation <> type.typcollation
      LEFT JOIN pg_namespace space ON space.oid = c.collnamespace
     WHERE a.attrelid = %s::regclass AND type.typcategory NOT IN ('N', 'B', 'D', 'T')
       AND type.typname <> 'uuid'
"""


def scrub(*, seconds: float = SECONDS) -> str:
    """Clear the files of both databases of deleted bytes; return "" once clear.

    SQLite: checkpoints the write-ahead log into the database, where freed bytes are
    overwritten, and truncates the log; `reader` if somebody reads all the while.
    PostgreSQL: VACUUM, which also takes fresh samples; `vacuum` while a table is
    locked, `reader` while a transaction may still see deleted rows, `rights` if another
    role owns a table. `store`: the database does not overwrite freed bytes.
    """
    return _run_each(partial(_scrub_database, seconds=seconds))


def rewrite(*, seconds: float = SECONDS) -> str:
    """Rewrite PostgreSQL's tables without deleted rows; switch to a new WAL segment.

    Locks each table while it is rewritten; `rights` without the privileges, `reader`
    while a transaction may still see deleted rows. The server removes or overwrites the
    WAL behind a checkpoint according to `wal_recycle` and `wal_keep_size`.
    """
    return _run_each(partial(_rewrite_database, seconds=seconds))


def _run_each(work: Callable[[str], str]) -> str:
    for alias in ALIASES:
        try:
            waiting_on = work(alias)
        except DatabaseError as failure:
            return _classify_failure(failure)
        if waiting_on:
            return waiting_on
    return ""


def _classify_failure(failure: DatabaseError) -> str:
    state = str(getattr(failure.__cause__, "sqlstate", None) or "")
    if state.startswith(_FULL) or "full" in str(failure):
        return DISK
    if state == _DENIED:
        return RIGHTS
    return VACUUM if isinstance(failure, OperationalError) and state else STORE


# SQLite


def _scrub_database(alias: str, seconds: float) -> str:
    connection = connections[alias]
    assert not connection.in_atomic_block
    if connection.vendor == "postgresql":
        return _vacuum_tables(connection, seconds)
    if not (_has_secure_delete(alias) and run(partial(_has_secure_delete, alias))):
        return STORE
    # The rollback journal of the keys' database goes with each commit.
    return "" if alias == "keys" or wal.truncate(seconds=seconds) else READER


def _has_secure_delete(alias: str) -> bool:
    """Return whether this connection overwrites freed bytes; FAST and OFF do not."""
    with connections[alias].cursor() as cursor:
        cursor.execute("PRAGMA secure_delete")
        return bool(cursor.fetchone()[0] == _ON)


# PostgreSQL


def _vacuum_tables(connection: BaseDatabaseWrapper, seconds: float) -> str:
    if rights.list_foreign_tables(connection.alias):
        return RIGHTS
    with _open_patient_cursor(connection) as cursor:
        if not _wait_for_readers(cursor, seconds):
            return READER
        cursor.execute(_GIN_INDEXES)
        for (index,) in cursor.fetchall():
            cursor.execute("SELECT gin_clean_pending_list(%s::regclass)", [index])
        for table, forget in rights.iter_subject_tables(connection.alias):
            # All indexes, however few rows are dead.
            cursor.execute(f"VACUUM (ANALYZE, INDEX_CLEANUP ON) {table}")
            _drop_samples(cursor, table)
            # No byte of a deleted key may be left in the page.
            destroyed = forget is Fate.DESTROYED
            if destroyed and not _rewrite_table(cursor, table, seconds):
                return READER
    return ""


def _rewrite_table(cursor: Any, table: str, seconds: float) -> bool:
    """Rewrite a table; return whether no deleted row was copied along.

    The snapshot of VACUUM FULL reaches back to writers in other databases of the
    server, so it copies rows that they might see. A plain VACUUM does not, so it runs
    first. But VACUUM keeps rows that any present reader might see, and skips a pinned
    page: so both repeat for `seconds`.
    """
    for _ in wal.iter_polls(seconds):
        cursor.execute(f"VACUUM {table}")
        if not _vacuum_full(cursor, table):
            return True
    return False


def _vacuum_full(cursor: Any, table: str) -> bool:
    """Vacuum a table; return whether dead rows that "cannot be removed yet" remain."""
    details: list[str] = []

    def note(diagnostic: Any) -> None:
        # The diagnostic is empty once this function returns.
        details.append(diagnostic.message_detail or "")

    raw = cursor.connection
    raw.add_notice_handler(note)
    try:
        cursor.execute(f"VACUUM (FULL, VERBOSE) {table}")
    finally:
        raw.remove_notice_handler(note)
    # Match the number alone: the message may be in any language.
    kept = [_NUMBER.search(each) for each in details]
    return any(int(number[0]) for number in kept if number)


def _rewrite_database(alias: str, seconds: float) -> str:
    connection = connections[alias]
    assert not connection.in_atomic_block
    if connection.vendor != "postgresql":
        return ""
    if rights.list_foreign_tables(alias) or rights.list_missing_grants(alias):
        return RIGHTS
    with _open_patient_cursor(connection) as cursor:
        # Rows that a transaction may still see would be copied into the new tables.
        if not _wait_for_readers(cursor, seconds):
            return READER
        for table, _ in rights.iter_subject_tables(connection.alias):
            if not _rewrite_table(cursor, table, seconds):
                return READER
            cursor.execute(f"ANALYZE {table}")
        cursor.execute("SELECT pg_switch_wal()")
        cursor.execute("CHECKPOINT")
    return ""


def _wait_for_readers(cursor: Any, seconds: float) -> bool:
    """Wait until no transaction may see rows deleted before now; return whether so."""
    cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
    (now,) = cursor.fetchone()
    return any(_is_oldest(cursor, now) for _ in wal.iter_polls(seconds))


def _is_oldest(cursor: Any, now: str) -> bool:
    cursor.execute(_OLDER, [now, now])
    return not cursor.fetchone()[0]


def _drop_samples(cursor: Any, table: str) -> None:
    """Drop the samples of an empty table, which ANALYZE leaves unchanged.

    PostgreSQL drops samples when a column's type is set, even to the type that it has.
    """
    cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {table})")  # noqa: S608 # our tables
    if cursor.fetchone()[0]:
        return
    cursor.execute(_SAMPLED, [table])
    for (change,) in cursor.fetchall():
        cursor.execute(f"ALTER TABLE {table} {change}")


@contextmanager
def _open_patient_cursor(connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """Open a cursor without a statement timeout, but with a short lock timeout."""
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(f"SET lock_timeout = {_LOCK_MS}")
        try:
            yield cursor
        finally:
            # A broken connection has no settings to reset.
            with suppress(DatabaseError):
                cursor.execute("RESET statement_timeout")
                cursor.execute("RESET lock_timeout")
