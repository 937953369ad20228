"""Kinds of surfaces that a scan reads; receipts name the kinds."""

from __future__ import annotations

from enum import StrEnum


class SurfaceKind(StrEnum):
    """Kind of a surface. Receipts store the values."""

    #: SQLite's files.
    DATABASE = "database"
    WAL = "wal"
    JOURNAL = "journal"
    #: Values read by SQL: names given by clients, titles given by staff, other columns
    #: of declared tables, and tables that no model declares.
    CALLED = "called"
    STAFF = "staff"
    ROWS = "rows"
    UNLISTED = "unlisted"
    #: Rows left of erased subjects.
    OWN_ROWS = "hers"
    SAMPLES = "samples"
    SCHEMA = "schema"
    LOG = "log"
    LEDGER = "ledger"
    TEMPORARY = "temporary"
    FILE = "file"
    #: Objects in cold storage.
    COLD = "cold"
    NAMES = "names"
    REDIS = "redis"


#: Kinds that grow with the memory: beyond a budget the scan leaves them to the night.
LARGE = frozenset(
    {
        *(SurfaceKind.DATABASE, SurfaceKind.WAL, SurfaceKind.SAMPLES),
        SurfaceKind.COLD,
        *(SurfaceKind.CALLED, SurfaceKind.ROWS, SurfaceKind.UNLISTED),
    }
)
