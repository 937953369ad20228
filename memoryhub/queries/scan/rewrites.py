"""Rewrites: which residue is over once PostgreSQL's tables were written anew.

Never writes. Looked at, not taken for granted: a table that was passed over has its old
file still, and a server that recycles its log keeps what stood in it.
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
#: A file that is used again holds what it held until that is written over, the one at
#: hand as well.
_OLDER_FILES = """
    SELECT count(*) FROM pg_ls_waldir()
     WHERE name ~ '^[0-9A-F]{24}$'
       AND (name <> pg_walfile_name(pg_current_wal_lsn())
            OR current_setting('wal_recycle')::boolean)
"""


#: By database and table.
Files = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRemains:
    """What there still is: tables, and files of the log, from before."""

    tables: int
    #: None where our role may not look.
    log_files: int | None

    @property
    def ended(self) -> tuple[str, ...]:
        """Return the residue that is over, by the words of receipts."""
        found = {FREE_SPACE: self.tables, WAL: self.log_files}
        return tuple(word for word, left in found.items() if left == 0)

    @property
    def numbers(self) -> dict[str, int]:
        counted = {"tables_left": self.tables, "log_files_left": self.log_files}
        return {name: left for name, left in counted.items() if left is not None}


def files() -> Files:
    """Tell the file of each table that may hold a subject's rows. One query each."""
    found: Files = {}
    for alias in _postgres():
        with connections[alias].cursor() as cursor:
            cursor.execute(_FILES, [[table for table, _ in rights.tables(alias)]])
            found |= {(alias, table): file for table, file in cursor.fetchall()}
    return found


def look(before: Files) -> OldRemains:
    """Look what is left of that on both databases' servers. Three queries for each."""
    now = files()
    log = [_log_files(alias) for alias in _postgres()]
    return OldRemains(
        tables=sum(now.get(table) == file for table, file in before.items()),
        log_files=None if None in log else sum(n for n in log if n),
    )


def _postgres() -> Iterator[str]:
    for alias in ALIASES:
        if connections[alias].vendor == "postgresql":
            yield alias


def _log_files(alias: str) -> int | None:
    with connections[alias].cursor() as cursor:
        cursor.execute(_MAY_LIST)
        if not cursor.fetchone()[0]:
            return None
        cursor.execute(_OLDER_FILES)
        return int(cursor.fetchone()[0])
