"""Residue: declared places that keep erased data for a time. Never writes.

`manage.py scan` prints these words at its end; receipts date each word.
"""

from __future__ import annotations

from typing import Final

from django.db import connections

from memoryhub.models.per_thread import list_distributed
from memoryhub.queries.scan.surfaces import ALIASES

#: PostgreSQL's own files, which keep sealed bytes and names until `forget --rewrite`.
FREE_SPACE, WAL = "database_free_space", "wal"
#: All files of a cluster's workers: a scan reads only the rows that they hold.
WORKER_FILES: Final = "worker_files"
_BACKUPS: Final = ("backups", "key_backups")
#: Places out of our hands.
_OUTSIDE: Final = (
    *("file_system_free_blocks", "process_memory", "replies", "downloads"),
)


def list_residue() -> list[str]:
    """List the words of residue for the databases' engines."""
    engines = {connections[alias].vendor for alias in ALIASES}
    files = (FREE_SPACE, WAL) if "postgresql" in engines else ()
    workers = (WORKER_FILES,) if list_distributed() else ()
    return [*_BACKUPS, *files, *workers, *_OUTSIDE]
