"""Residue: what is declared to be left of what was forgotten, where and until when.

Never writes. Whatever a scan finds that is not declared here stops the erasure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from django.conf import settings
from django.db import connections

from memoryhub.queries.scan.surfaces import ALIASES
from memoryhub.queries.scan.surfaces import Kind as Place
from memoryhub.vault.scan.needles import Kind


class Standing(StrEnum):
    """What a place is in the end."""

    PURGED = "purged"
    #: Declared, and gone by a known date or act.
    CONTROLLED = "controlled"
    #: Declared, out of our hands.
    UNCONTROLLABLE = "uncontrollable"
    #: A name that somebody else's rows, or our own words, hold lawfully.
    OTHERS = "others"
    UNDECLARED = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Residue:
    """What is declared to be left, and until when."""

    what: str
    standing: Standing
    #: None: until what `control` names is done, which nobody can date.
    days: int | None
    control: str


FREE_SPACE = Residue(
    what="database_free_space",
    standing=Standing.CONTROLLED,
    days=None,
    control="forget --rewrite",
)
WAL = Residue(
    what="wal", standing=Standing.CONTROLLED, days=None, control="forget --rewrite"
)
#: What may be met in PostgreSQL's own files: sealed bytes and names, never content.
DECLARED: Mapping[tuple[Place, Kind], Residue] = MappingProxyType(
    {
        (Place.SERVER_DATA, Kind.NONCE): FREE_SPACE,
        (Place.SERVER_DATA, Kind.NAME): FREE_SPACE,
        (Place.SERVER_WAL, Kind.NONCE): WAL,
        (Place.SERVER_WAL, Kind.NAME): WAL,
        (Place.SERVER_WAL, Kind.WRAPPED_KEY): WAL,
    }
)


def list_residue() -> list[Residue]:
    """All that is declared on these engines, whatever a scan has found."""
    engines = {connections[alias].vendor for alias in ALIASES}
    return [
        _kept("backups", settings.BACKUP_DAYS),
        _kept("key_backups", settings.KEYS_BACKUP_DAYS),
        *([FREE_SPACE, WAL] if "postgresql" in engines else []),
        *(
            Residue(
                what=what, standing=Standing.UNCONTROLLABLE, days=None, control=control
            )
            for what, control in _OUTSIDE.items()
        ),
    ]


_OUTSIDE = {
    "file_system_free_blocks": "the disk",
    "process_memory": "restart",
    "replies": "recipients",
    "downloads": "recipients",
}


def _kept(what: str, days: int) -> Residue:
    return Residue(what=what, standing=Standing.CONTROLLED, days=days, control="expiry")
