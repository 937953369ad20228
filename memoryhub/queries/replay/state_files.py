"""Files of a bundle's states: what a noun declares of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread

Record = TypeVar("Record")
#: Lines made at once.
CHUNK = 500

#: (thread with its subject, its state, the instant it is of) → its lines.
Lines = Callable[[Thread, ThreadState, datetime], Iterator[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """What a line of the file is, and how a thread's are made."""

    path: str
    #: The dataclass of a line; the file's schema is made of it.
    record: type[Any]
    lines: Lines
    #: Events without which a thread, or what it goes on from, has none of these.
    needs: frozenset[str]
    #: The event of which each is a record, where a profile counts them by it.
    counted: str | None = None

    @property
    def name(self) -> str:
        return name_of(self.path)


def record_of(record: type[Record], line: object, **others: Any) -> Record:
    """Make a record of a line's attributes by the names of fields, and of others."""
    same = record.__annotations__.keys() - others.keys()
    return record(**{name: getattr(line, name) for name in same}, **others)


def name_of(path: str) -> str:
    """Return the name of a file's kind of lines."""
    return path.rpartition("/")[2].removesuffix(".jsonl")
