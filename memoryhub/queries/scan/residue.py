"""Residue: what is declared to be left of what was forgotten, whatever a scan finds.

Never writes. The words are those that `scan` ends with; receipts date each.
"""

from __future__ import annotations

from typing import Final

from django.db import connections

from memoryhub.queries.scan.surfaces import ALIASES

#: Of PostgreSQL's own files: sealed bytes and names, until `forget --rewrite`.
FREE_SPACE, WAL = "database_free_space", "wal"
_BACKUPS: Final = ("backups", "key_backups")
#: Out of our hands.
_OUTSIDE: Final = (
    *("file_system_free_blocks", "process_memory", "replies", "downloads"),
)


def list_residue() -> list[str]:
    """List all that is declared on these engines."""
    engines = {connections[alias].vendor for alias in ALIASES}
    files = (FREE_SPACE, WAL) if "postgresql" in engines else ()
    return [*_BACKUPS, *files, *_OUTSIDE]
