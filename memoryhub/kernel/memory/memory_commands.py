"""Commands on working memory. Frozen values, checked already."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from memoryhub.kernel.commands import Command


class MemoryCommand(Command):
    """Base of these commands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What was said about an expiry: nothing, never, so long, or that instant."""

    said: bool = False
    ttl: timedelta | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The version that the sender saw, or that there must be none."""

    version: int | None = None
    absent: bool = False


ANY_VERSION = Expected()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKey:
    key: str
    #: JSON text, UTF-8.
    value: bytes
    #: Canonical UTF-8 size.
    bytes: int
    expiry: Expiry = Expiry()
    expected: Expected = Expected()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKey:
    key: str
    expected: Expected = Expected()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeKeys(MemoryCommand):
    """Sets and deletes on distinct keys, all or nothing."""

    changes: tuple[SetKey | DeleteKey, ...]
    #: Of the project, where neither the command nor the thread says.
    default_ttl: timedelta | None = None
    #: Whether a refusal tells which change it is about.
    numbered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RetimeKey(MemoryCommand):
    key: str
    expiry: Expiry
    expected: Expected = Expected()
    #: JSON text of an inherited value, which is set anew; None when it is the thread's.
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearKeys(MemoryCommand):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireKeys(MemoryCommand):
    """Sweep keys, each if it still has that version and its instant has passed."""

    keys: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseValues(MemoryCommand):
    """Take values out of the journal, each if it is still due."""

    seqs: tuple[int, ...]
    #: How long after its latest expiry a value stays in history.
    grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCheckpoint(MemoryCommand):
    name: str | None = None
    #: JSON text, UTF-8.
    description: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheckpoint(MemoryCommand):
    #: Clock or name.
    target: int | str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCheckpoint(MemoryCommand):
    target: int | str
