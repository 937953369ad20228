"""State files of an export bundle, declared by each noun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread

Record = TypeVar("Record")
#: Number of lines built at once.
CHUNK = 500

#: (thread with its subject, its state, the state's instant) → lines of the thread.
Lines = Callable[[Thread, ThreadState, datetime], Iterator[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A state file: the record of a line, and the function that yields the lines."""

    path: str
    #: The dataclass of a line; the file's schema is generated from the dataclass.
    record: type[Any]
    lines: Lines
    #: Event types without which a thread and its ancestors have no lines.
    needs: frozenset[str]
    #: The event type of which each line is a record, if a profile counts lines by
    #: event.
    counted: str | None = None

    @property
    def name(self) -> str:
        return parse_name(self.path)


def build_record(record: type[Record], line: object, **others: Any) -> Record:
    """Build a record from a line's attributes of equal names and from `others`."""
    same = record.__annotations__.keys() - others.keys()
    return record(**{name: getattr(line, name) for name in same}, **others)


def parse_name(path: str) -> str:
    """Return the file's name without folder and suffix."""
    return path.rpartition("/")[2].removesuffix(".jsonl")
