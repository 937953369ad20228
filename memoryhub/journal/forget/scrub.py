"""Scrubbing: what was deleted leaves the databases' files as well, engine by engine.

Outside any transaction, on the caller's own connections. Answers with the word for what
is in the way, if anything is; to be tried again later.
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
#: Until a reader is said to be in the way.
SECONDS: Final = 60.0
READER, VACUUM, DISK, STORE = "reader", "vacuum", "disk", "store"
#: PostgreSQL does not let our role do it; waiting alone does not help.
RIGHTS: Final = "rights"

_LOCK_MS: Final = 5_000
_NUMBER: Final = re.compile(r"\d+")
_ON: Final = 1
#: The class of PostgreSQL's errors for a disk, memory or connections at their end, and
#: its error for what a role may not do.
_FULL, _DENIED = "53", "42501"

_GIN_INDEXES = """
    SELECT index.oid::regclass::text FROM pg_class index
      JOIN pg_am method ON method.oid = index.relam
      JOIN pg_namespace space ON space.oid = index.relnamespace
     WHERE index.relkind = 'i' AND method.amname = 'gin' AND space.nspname !~ '^pg_'
       AND pg_has_role(index.relowner, 'USAGE')
"""
#: Whether a transaction of this database is older: what it may see is not cleared. One
#: that wrote and pauses between two statements has no snapshot, but a number. A plain
#: VACUUM is in nobody's way, at whatever it looks.
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
#: The columns that samples are kept of, and what says of each of which type it is.
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
    """Clear the files of both databases of what was deleted; "" once they are.

    SQLite: the log is brought into the database, where freed bytes are overwritten,
    and emptied; `reader` if somebody reads all the while. PostgreSQL: VACUUM, which
    also takes fresh samples; `vacuum` while a table is locked, `reader` while somebody
    may still see what is gone, `rights` if a table is another role's. `store`: freed
    bytes are not overwritten there.
    """
    return _each(partial(_scrub, seconds=seconds))


def rewrite(*, seconds: float = SECONDS) -> str:
    """Write PostgreSQL's tables anew, without what was deleted; go on in a new log.

    Locks each table as long as that takes; `rights` without those for it, `reader`
    while somebody may still see what is gone. Of the log, what is behind a checkpoint
    is removed or overwritten as the server is set to (`wal_recycle`, `wal_keep_size`).
    """
    return _each(partial(_rewrite, seconds=seconds))


def _each(work: Callable[[str], str]) -> str:
    for alias in ALIASES:
        try:
            waiting_on = work(alias)
        except DatabaseError as failure:
            return _word(failure)
        if waiting_on:
            return waiting_on
    return ""


def _word(failure: DatabaseError) -> str:
    state = str(getattr(failure.__cause__, "sqlstate", None) or "")
    if state.startswith(_FULL) or "full" in str(failure):
        return DISK
    if state == _DENIED:
        return RIGHTS
    return VACUUM if isinstance(failure, OperationalError) and state else STORE


# SQLite


def _scrub(alias: str, seconds: float) -> str:
    connection = connections[alias]
    assert not connection.in_atomic_block
    if connection.vendor == "postgresql":
        return _vacuumed(connection, seconds)
    if not (_overwrites(alias) and run(partial(_overwrites, alias))):
        return STORE
    # The keys' rollback journal goes with each commit.
    return "" if alias == "keys" or wal.truncate(seconds=seconds) else READER


def _overwrites(alias: str) -> bool:
    """Tell whether this connection overwrites what it frees; FAST, and off, do not."""
    with connections[alias].cursor() as cursor:
        cursor.execute("PRAGMA secure_delete")
        return bool(cursor.fetchone()[0] == _ON)


# PostgreSQL


def _vacuumed(connection: BaseDatabaseWrapper, seconds: float) -> str:
    if rights.not_ours(connection.alias):
        return RIGHTS
    with _unhurried(connection) as cursor:
        if not _unseen(cursor, seconds):
            return READER
        cursor.execute(_GIN_INDEXES)
        for (index,) in cursor.fetchall():
            cursor.execute("SELECT gin_clean_pending_list(%s::regclass)", [index])
        for table, forget in rights.tables(connection.alias):
            # All indexes, however little is dead.
            cursor.execute(f"VACUUM (ANALYZE, INDEX_CLEANUP ON) {table}")
            _drop_samples(cursor, table)
            # Of keys nothing may be left in the page.
            destroyed = forget is Fate.DESTROYED
            if destroyed and not _written_anew(cursor, table, seconds):
                return READER
    return ""


def _written_anew(cursor: Any, table: str, seconds: float) -> bool:
    """Write a table anew; whether no row went along that is gone.

    Its snapshot reaches back to whoever writes in another database of the server, so it
    keeps what they might see: a plain VACUUM goes before it, which does not. But that
    keeps what anybody might see who reads here for a moment, and a page that somebody
    has in hand: so it is tried for so long.
    """
    for _ in wal.polls(seconds):
        cursor.execute(f"VACUUM {table}")
        if not _moved_dead_rows(cursor, table):
            return True
    return False


def _moved_dead_rows(cursor: Any, table: str) -> bool:
    """Write a table anew; it tells how many dead rows "cannot be removed yet"."""
    details: list[str] = []

    def note(diagnostic: Any) -> None:
        # It is empty once this returns.
        details.append(diagnostic.message_detail or "")

    raw = cursor.connection
    raw.add_notice_handler(note)
    try:
        cursor.execute(f"VACUUM (FULL, VERBOSE) {table}")
    finally:
        raw.remove_notice_handler(note)
    # In whatever language.
    kept = [_NUMBER.search(each) for each in details]
    return any(int(number[0]) for number in kept if number)


def _rewrite(alias: str, seconds: float) -> str:
    connection = connections[alias]
    assert not connection.in_atomic_block
    if connection.vendor != "postgresql":
        return ""
    if rights.not_ours(alias) or rights.missing_grants(alias):
        return RIGHTS
    with _unhurried(connection) as cursor:
        # What somebody may still see would be written into the new tables as well.
        if not _unseen(cursor, seconds):
            return READER
        for table, _ in rights.tables(connection.alias):
            if not _written_anew(cursor, table, seconds):
                return READER
            cursor.execute(f"ANALYZE {table}")
        cursor.execute("SELECT pg_switch_wal()")
        cursor.execute("CHECKPOINT")
    return ""


def _unseen(cursor: Any, seconds: float) -> bool:
    """Wait until nobody may see any more what is gone by now; whether it is so."""
    cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
    (now,) = cursor.fetchone()
    return any(_all_newer(cursor, now) for _ in wal.polls(seconds))


def _all_newer(cursor: Any, now: str) -> bool:
    cursor.execute(_OLDER, [now, now])
    return not cursor.fetchone()[0]


def _drop_samples(cursor: Any, table: str) -> None:
    """Drop samples of a table without rows, which ANALYZE leaves as they were.

    They go when a column is said to be of a type, be it the one that it has.
    """
    cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {table})")  # noqa: S608 # our tables
    if cursor.fetchone()[0]:
        return
    cursor.execute(_SAMPLED, [table])
    for (change,) in cursor.fetchall():
        cursor.execute(f"ALTER TABLE {table} {change}")


@contextmanager
def _unhurried(connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """Open a cursor that may take its time, but waits for no lock for long."""
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(f"SET lock_timeout = {_LOCK_MS}")
        try:
            yield cursor
        finally:
            # A connection that broke has nothing to set back.
            with suppress(DatabaseError):
                cursor.execute("RESET statement_timeout")
                cursor.execute("RESET lock_timeout")
