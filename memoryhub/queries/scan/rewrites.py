"""Residue that ended when PostgreSQL's tables were rewritten. Never writes.

The module checks each file: a skipped table still has its old file, and a server that
recycles its log files keeps their old content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connections

from memoryhub.queries.scan.residue import FREE_SPACE, WAL
from memoryhub.queries.scan.surfaces import ALIASES
from memoryhub.vault.registry import rights

_FILES = """
    SELECT of::text, pg_relation_filenode(of) FROM unnest(%s::regclass[]) AS of
"""
_MAY_LIST = "SELECT has_function_privilege('pg_ls_waldir()', 'EXECUTE')"
#: A recycled log file, the current file included, keeps old bytes until overwritten.
_OLDER_FILES = """
    SELECT count(*) FROM pg_ls_waldir()
     WHERE name ~ '^[0-9A-F]{24}$'
       AND (name <> pg_walfile_name(pg_current_wal_lsn())
            OR current_setting('wal_recycle')::boolean)
"""


#: File numbers by database and table.
Files = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRemains:
    """Counts of tables and log files that still have their old files."""

    tables: int
    #: None if our role may not list the log files.
    log_files: int | None

    @property
    def ended(self) -> tuple[str, ...]:
        """Return the words of residue that ended, as in receipts."""
        found = {FREE_SPACE: self.tables, WAL: self.log_files}
        return tuple(word for word, left in found.items() if left == 0)

    @property
    def numbers(self) -> dict[str, int]:
        counted = {"tables_left": self.tables, "log_files_left": self.log_files}
        return {name: left for name, left in counted.items() if left is not None}


def list_files() -> Files:
    """List the file of each table that may hold subjects' rows. One query each."""
    found: Files = {}
    for alias in _iter_postgres():
        with connections[alias].cursor() as cursor:
            cursor.execute(
                _FILES, [[table for table, _ in rights.iter_subject_tables(alias)]]
            )
            found |= {(alias, table): file for table, file in cursor.fetchall()}
    return found


def find_old_remains(before: Files) -> OldRemains:
    """Count old table and log files on both databases' servers. Three queries each."""
    now = list_files()
    log = [_count_log_files(alias) for alias in _iter_postgres()]
    return OldRemains(
        tables=sum(now.get(table) == file for table, file in before.items()),
        log_files=None if None in log else sum(n for n in log if n),
    )


def _iter_postgres() -> Iterator[str]:
    for alias in ALIASES:
        if connections[alias].vendor == "postgresql":
            yield alias


def _count_log_files(alias: str) -> int | None:
    with connections[alias].cursor() as cursor:
        cursor.execute(_MAY_LIST)
        if not cursor.fetchone()[0]:
            return None
        cursor.execute(_OLDER_FILES)
        return int(cursor.fetchone()[0])
