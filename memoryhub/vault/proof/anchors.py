"""Anchors: signed lines outside the databases that record the heads of all chains.

The anchors have their own chained file beside the ledger. See decision 19.
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
path, mirror, recover = _FILE.get_path, _FILE.update_mirror, _FILE.recover


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchoredHeads:
    """Anchored heads: that of the audit log, and all threads' heads in one digest."""

    audit_seq: int
    audit_hash: bytes
    #: Number of anchored threads, and SHA-256 over (id, seq, hash) of all threads.
    threads: int
    digest: bytes

    @property
    def of_threads(self) -> tuple[int, bytes]:
        return self.threads, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One line of the anchors' file."""

    n: int
    at: datetime
    heads: AnchoredHeads

    @classmethod
    def from_link(cls, link: Link) -> Self:
        """Parse a line. Raises LedgerBrokenError for a line that is not ours."""
        says = link.says
        try:
            heads = AnchoredHeads(
                audit_seq=int(says["audit_seq"]),
                audit_hash=bytes.fromhex(says["audit_hash"]),
                threads=int(says["threads"]),
                digest=bytes.fromhex(says["digest"]),
            )
            at = datetime.fromisoformat(says["at"])
        except (KeyError, ValueError, TypeError):
            raise LedgerBrokenError(n=link.n, file=path().name) from None
        return cls(n=link.n, at=at, heads=heads)


def draft(heads: AnchoredHeads, *, at: datetime, anew: bool = False) -> Link:
    """Write a draft line and wait until it is on disk; `note` makes the line count.

    With `anew` the line follows any last line. Raises LedgerUnwritableError and
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
    """Note a line, whose heads are committed. The mirror follows if possible."""
    _FILE.note(link, anew=anew)
    _FILE.update_mirror(upto=link)


def list_ends() -> tuple[Anchor | None, ...]:
    """List the lines that may match the databases: the newest, and the noted line.

    None stands for the time before the first line. Raises LedgerBrokenError.
    """
    link, noted = _FILE.get_newest(), _FILE.get_noted().n
    newest = Anchor.from_link(link) if link else None
    if newest is None or newest.n <= noted:
        return (newest,)
    earlier = (each for each in iter_anchors() if each.n == noted)
    return newest, next(earlier, None)


def settle(threads: Callable[[], tuple[int, bytes]]) -> None:
    """Note a draft whose heads were committed; `threads` counts and digests them."""
    link = _FILE.get_newest()
    if link is None or link.n <= _FILE.get_noted().n:
        return
    if Anchor.from_link(link).heads.of_threads == threads():
        note(link)


def get_newest() -> Anchor | None:
    """Return the newest line, or None. Reads only the end of the file.

    Raises LedgerBrokenError, also when the file is shorter or longer than noted.
    """
    link = _FILE.get_newest()
    return Anchor.from_link(link) if link else None


def iter_anchors() -> Iterator[Anchor]:
    """Yield every line, oldest first. Raises LedgerBrokenError."""
    for link in _FILE.iter_links():
        yield Anchor.from_link(link)


def check() -> Anchor | None:
    """Check the whole file; return its newest line. Raises LedgerBrokenError."""
    link = _FILE.check()
    return Anchor.from_link(link) if link else None
