"""Anchors: signed lines outside the databases that say where all chains stood.

Beside the ledger, in a chained file of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from django.conf import settings

from memoryhub.errors import LedgerBrokenError
from memoryhub.models.keys import KeyMeta
from memoryhub.vault import chained, signing


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """What is anchored: the audit log's head, and all threads' in one digest."""

    audit_seq: int
    audit_hash: bytes
    #: How many threads are anchored, and the SHA-256 over (id, seq, hash) of them all.
    threads: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One line."""

    n: int
    at: datetime
    heads: Heads

    @classmethod
    def of(cls, link: chained.Link) -> Self:
        """Raises LedgerBrokenError for a line that we did not write."""
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


def append(heads: Heads, *, at: datetime) -> Anchor:
    """Write a line and wait until it is on disk. Raises LedgerUnwritableError."""
    says = {
        "at": at.isoformat(timespec="microseconds"),
        "audit_seq": heads.audit_seq,
        "audit_hash": heads.audit_hash.hex(),
        "threads": heads.threads,
        "digest": heads.digest.hex(),
    }
    signer = signing.current()
    return Anchor.of(chained.append(path(), says, genesis=genesis(), signer=signer))


def newest() -> Anchor | None:
    """The newest line, or None. Raises LedgerBrokenError."""
    link = chained.head(path())
    return Anchor.of(link) if link else None


def anchors() -> Iterator[Anchor]:
    """Every line, oldest first. Raises LedgerBrokenError."""
    for link in chained.iter_links(path()):
        yield Anchor.of(link)


def check() -> Anchor | None:
    """Walk the whole file; returns its newest line. Raises LedgerBrokenError."""
    link = chained.check(path(), genesis=genesis(), keys=signing.public_keys())
    return Anchor.of(link) if link else None


def genesis() -> bytes:
    """What the first line follows; unlike that of the ledger."""
    instance = KeyMeta.objects.using("keys").values_list("instance", flat=True).get()
    return hashlib.sha256(b"memoryhub.heads/1" + instance.bytes).digest()


def path() -> Path:
    folder: Path = settings.LEDGER
    return folder / "heads.jsonl"
