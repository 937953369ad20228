"""Anchors: signed lines outside the databases that say where all chains stood.

Beside the ledger, in a chained file of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from memoryhub.errors import LedgerBrokenError
from memoryhub.vault.proof.chained import Link
from memoryhub.vault.proof.chains import Chain

_FILE: Final = Chain(file="heads.jsonl", format="memoryhub.heads/1")
path, mirror, recover = _FILE.path, _FILE.mirror, _FILE.recover


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """What is anchored: the audit log's head, and all threads' in one digest."""

    audit_seq: int
    audit_hash: bytes
    #: How many threads are anchored, and the SHA-256 over (id, seq, hash) of them all.
    threads: int
    digest: bytes

    @property
    def of_threads(self) -> tuple[int, bytes]:
        return self.threads, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One line."""

    n: int
    at: datetime
    heads: Heads

    @classmethod
    def of(cls, link: Link) -> Self:
        """Parse a line. Raises LedgerBrokenError for one that we did not write."""
        says = link.says
        try:
            heads = Heads(
                audit_seq=int(says["audit_seq"]),
                audit_hash=bytes.fromhex(says["audit_hash"]),
                threads=int(says["threads"]),
                digest=bytes.fromhex(says["digest"]),
            )
            at = datetime.fromisoformat(says["at"])
        except (KeyError, ValueError, TypeError):
            raise LedgerBrokenError(n=link.n, file=path().name) from None
        return cls(n=link.n, at=at, heads=heads)


def draft(heads: Heads, *, at: datetime, anew: bool = False) -> Link:
    """Write a line and wait until it is on disk; it counts once it is noted.

    With `anew` it follows whatever there is. Raises LedgerUnwritableError and
    LedgerBrokenError.
    """
    says = {
        "at": at.isoformat(timespec="microseconds"),
        "audit_seq": heads.audit_seq,
        "audit_hash": heads.audit_hash.hex(),
        "threads": heads.threads,
        "digest": heads.digest.hex(),
    }
    return _FILE.draft(says, anew=anew)


def note(link: Link, *, anew: bool = False) -> None:
    """Let a line count: what it says is committed. The mirror follows if it can."""
    _FILE.note(link, anew=anew)
    _FILE.mirror(upto=link)


def ends() -> tuple[Anchor | None, ...]:
    """Return the lines the databases may be as of: the newest, and the noted one.

    None is the time before the first line. Raises LedgerBrokenError.
    """
    link, noted = _FILE.newest(), _FILE.noted().n
    newest = Anchor.of(link) if link else None
    if newest is None or newest.n <= noted:
        return (newest,)
    earlier = (each for each in anchors() if each.n == noted)
    return newest, next(earlier, None)


def settle(threads: Callable[[], tuple[int, bytes]]) -> None:
    """Note a draft whose columns were committed; `threads` are what they come to."""
    link = _FILE.newest()
    if link is None or link.n <= _FILE.noted().n:
        return
    if Anchor.of(link).heads.of_threads == threads():
        note(link)


def newest() -> Anchor | None:
    """Return the newest line, or None. Reads no more than the file's end.

    Raises LedgerBrokenError, also when the file ends elsewhere than it should.
    """
    link = _FILE.newest()
    return Anchor.of(link) if link else None


def anchors() -> Iterator[Anchor]:
    """Yield every line, oldest first. Raises LedgerBrokenError."""
    for link in _FILE.links():
        yield Anchor.of(link)


def check() -> Anchor | None:
    """Walk the whole file; returns its newest line. Raises LedgerBrokenError."""
    link = _FILE.check()
    return Anchor.of(link) if link else None
