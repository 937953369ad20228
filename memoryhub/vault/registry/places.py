"""Places: the words in which the registry says what may stand where.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from types import MappingProxyType


class Holds(Flag):
    """What may stand in a field. Several for a field that has parts, such as JSON."""

    SEALED = auto()
    DIGEST = auto()
    #: Chosen by a client, in the clear.
    NAME = auto()
    ID = auto()
    NUMBER = auto()
    #: Of a closed vocabulary; truth values too.
    WORD = auto()
    TIME = auto()
    #: About operators or the installation itself, never about a subject.
    STAFF = auto()


class Fate(StrEnum):
    """What forgetting a subject does to its part of a place."""

    NULLED = "sealed bytes become NULL, names their digests; the place stays"
    DELETED = "the rows are deleted"
    BLANKED = "names become their digests, the rest NULL; the row stays"
    DESTROYED = "destroyed and scrubbed"
    VOID = "void by head and epoch before it is used; gone with the process"
    PASSES = "goes by itself within seconds; nothing to do"
    ROTATES = "kept as it holds ids only; gone after its time"
    STAYS = "kept: it holds ids, counts and keyed digests only"
    NOT_ITS = "it holds nothing of a subject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A model: the class of each field, and the subject's part of its rows."""

    fields: Mapping[str, Holds]
    #: The lookup from a row to its subject's id: finds, exports, erases and counts
    #: that part. None where rows are about no subject.
    subject: str | None = None
    #: The lookup from a row to its thread's id, where `subject` does not lead over it.
    of_thread: str | None = None
    #: The part of the export that shows the rows; None where none needs to.
    exported: str | None = None
    forget: Fate = Fate.NOT_ITS

    @property
    def thread(self) -> str | None:
        """The lookup from a row to its thread's id; None where it has none."""
        if self.of_thread is not None:
            return self.of_thread
        home, _, rest = (self.subject or "").rpartition("__")
        return home if rest == "subject" and home == "thread" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place outside the tables: what it holds, and how a subject's part is found."""

    holds: str
    found: str = "nothing to find"
    forget: Fate = Fate.NOT_ITS


def fields(**named: str) -> Mapping[str, Holds]:
    """`id="a b", name_word="c"`: the fields a and b hold ids, c names and words."""
    found: dict[str, Holds] = {}
    for classes, names in named.items():
        holds = Holds(0)
        for word in classes.split("_"):
            holds |= Holds[word.upper()]
        for name in names.split():
            assert name not in found
            found[name] = holds
    return MappingProxyType(found)
