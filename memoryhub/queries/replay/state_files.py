"""Files of a bundle's states: what a noun declares of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread

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


def name_of(path: str) -> str:
    """What the lines of a file are called."""
    return path.rpartition("/")[2].removesuffix(".jsonl")
