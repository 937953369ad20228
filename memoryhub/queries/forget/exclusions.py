"""Texts of an erasure's residue, which is out of reach, for screens and terminals.

Reads no database. Each line says where, what stands there in the clear, and until when.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from memoryhub.distribution import PROGRAM

#: Places of residue, by the words of plans and receipts.
PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "backups": "backups of the memory",
        "key_backups": "backups of the keys database",
        "free_blocks": "free blocks of the file system",
        "database_free_space": "free pages of the database",
        "wal": "the database's log",
        "worker_files": "files of a cluster's workers, which no scan reads",
        "process_memory": "memory of running processes",
        "replies_sent": "answers that were sent before",
        "downloads": "files that were downloaded before",
        "recipients": "agents and model providers that were given content",
        "names_in_forks": "living forks, which read by them",
    }
)
#: Data besides names, and what guards the data, by the word of control.
CONTROL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "contents_sealed": "contents, sealed under the person's key",
        "in_the_clear": "",
        "wrapped": "the person's key, wrapped: useless without the key ring",
        "process": "contents and names, which the server's user alone can read",
        "none": "contents and names, not protected by the hub",
        "named": "contents and names; the receipt names who has them",
    }
)
#: Kinds of names, where the word alone does not tell.
NAMED: Final[Mapping[str, str]] = MappingProxyType({"types": "message types"})
#: Ends of residue that are no day.
UNTIL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "overwritten": "until they are written over",
        "rewrite": f"until the tables are written anew: {PROGRAM} forget --rewrite",
        "recycled": f"until it is written over, or: {PROGRAM} forget --rewrite",
        "restart": "until they restart",
        "never": "for as long as whoever has them keeps them",
        "last_fork": "until the last such fork goes",
    }
)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidueLine:
    """Residue in one place, in words."""

    where: str
    #: Names in the clear, and other data.
    what: str
    until: str

    def __str__(self) -> str:
        return f"{self.where}, {self.until}: {self.what}"


def list_residue_lines(residue: Iterable[Mapping[str, Any]]) -> list[ResidueLine]:
    """Build lines of a receipt's residue, in words; an unknown word stays as it is."""
    return [
        ResidueLine(
            where=PLACES.get(each["what"], each["what"]),
            what=_describe_content(each),
            until=_describe_end(each["until"]),
        )
        for each in residue
    ]


def _describe_content(each: Mapping[str, Any]) -> str:
    kinds = [NAMED.get(kind, kind) for kind in each["names"]]
    besides: str = CONTROL.get(each["control"], each["control"])
    if not kinds:
        return besides
    *most, last = kinds
    listed = f"{', '.join(most)} and {last}" if most else last
    named = f"names of {listed} in the clear"
    return f"{named}; {besides}" if besides else named


def _describe_end(word: str) -> str:
    return f"until {word}" if _DAY.fullmatch(word) else UNTIL.get(word, word)
