"""Surface kinds: what sort of place a scan looks through; receipts name them."""

from __future__ import annotations

from enum import StrEnum


class SurfaceKind(StrEnum):
    """What sort of place it is. Stored values are words of receipts."""

    #: SQLite's files.
    DATABASE = "database"
    WAL = "wal"
    JOURNAL = "journal"
    #: Values by SQL, in a table that a model declares or in one that none does; what
    #: clients call something, and what staff do, apart from the rest.
    CALLED = "called"
    STAFF = "staff"
    ROWS = "rows"
    UNLISTED = "unlisted"
    #: What is left of the subjects' own rows where nothing should be.
    OWN_ROWS = "hers"
    SAMPLES = "samples"
    SCHEMA = "schema"
    LOG = "log"
    LEDGER = "ledger"
    TEMPORARY = "temporary"
    FILE = "file"
    NAMES = "names"
    REDIS = "redis"


#: They grow with the memory: beyond a budget they wait for the night.
LARGE = frozenset(
    {
        *(SurfaceKind.DATABASE, SurfaceKind.WAL, SurfaceKind.SAMPLES),
        *(SurfaceKind.CALLED, SurfaceKind.ROWS, SurfaceKind.UNLISTED),
    }
)
