"""The ledger of erasures: what was to be forgotten, outside of what can be restored.

A file of signed, chained lines with ids and digests only. Whoever restores an older
database finds here what has to be erased once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self
from uuid import UUID

from memoryhub.errors import LedgerBrokenError
from memoryhub.vault.proof import chained
from memoryhub.vault.proof.chains import Chain

_FILE: Final = Chain(file="erasures.jsonl", format="memoryhub.ledger/1")
path, genesis = _FILE.path, _FILE.genesis
mirror, recover, noted = _FILE.mirror, _FILE.recover, _FILE.noted


class LedgerKind(StrEnum):
    """What a line says of its erasure."""

    #: It will be done, whatever happens; written before anything is.
    INTENT = "intent"
    #: It is complete, and this is the digest of its receipt.
    DONE = "done"
    #: It was complete once, and is again, after a restore.
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: ids and digests, never a name or content."""

    n: int
    at: datetime
    kind: LedgerKind
    erasure: UUID
    project: UUID
    subject: UUID
    #: Keyed digest of the user id; None for the anonymous subject.
    subject_ref: bytes | None
    scope: str
    #: Why, as a closed word: what is erased anew says so again.
    reason: str
    #: The number of the request in somebody's own files, such as LEGAL-42.
    ticket: str | None
    #: What of the subject goes, as the erasure's scope words it; plain JSON.
    targets: Sequence[Any]
    receipt_sha256: bytes | None
    hash: bytes

    @classmethod
    def of(cls, link: chained.Link) -> Self:
        """Parse a line. Raises LedgerBrokenError for one that we did not write."""
        says = link.says
        try:
            return cls(
                n=link.n,
                at=datetime.fromisoformat(says["at"]),
                kind=LedgerKind(says["kind"]),
                erasure=UUID(says["erasure"]),
                project=UUID(says["project"]),
                subject=UUID(says["subject"]),
                subject_ref=_bytes(says["subject_ref"]),
                scope=says["scope"],
                reason=says["reason"],
                ticket=says["ticket"],
                targets=tuple(says["targets"]),
                receipt_sha256=_bytes(says["receipt_sha256"]),
                hash=link.hash,
            )
        except (KeyError, ValueError, TypeError, AttributeError):
            raise LedgerBrokenError(n=link.n) from None


def append(
    *,
    kind: str,
    erasure: UUID,
    project: UUID,
    subject: UUID,
    subject_ref: bytes | None,
    scope: str,
    reason: str,
    targets: Sequence[Any],
    at: datetime,
    ticket: str | None = None,
    receipt_sha256: bytes | None = None,
) -> Line:
    """Write a line and wait until it is on disk, here and as far as it can be in the
    mirror.

    Raises LedgerUnwritableError, after which there is no such line, and
    LedgerBrokenError when the ledger does not end where it should.
    """
    says = {
        "at": at.isoformat(timespec="microseconds"),
        "kind": LedgerKind(kind),
        "erasure": str(erasure),
        "project": str(project),
        "subject": str(subject),
        "subject_ref": None if subject_ref is None else bytes(subject_ref).hex(),
        "scope": str(scope),
        "reason": reason,
        "ticket": ticket,
        "targets": list(targets),
        "receipt_sha256": None if receipt_sha256 is None else receipt_sha256.hex(),
    }
    return Line.of(_FILE.write(says))


def lines(*, after: int = 0) -> Iterator[Line]:
    """Yield the lines with n > `after`, oldest first. Raises LedgerBrokenError."""
    for link in _FILE.links():
        if link.n > after:
            yield Line.of(link)


def head() -> Line | None:
    """Return the newest line, or None. Reads no more than the file's end.

    Raises LedgerBrokenError, also when the ledger ends elsewhere than it should.
    """
    link = _FILE.newest()
    return Line.of(link) if link else None


def check(
    *, keys: Mapping[str, bytes] | None = None, restored: bool = False
) -> Line | None:
    """Walk the whole ledger; returns its newest line.

    With `restored` the keys database may be behind it. Raises LedgerBrokenError with
    the number of the first line that is none of ours, or that is missing.
    """
    link = _FILE.check(keys=keys, restored=restored)
    return Line.of(link) if link else None


def catch_up() -> None:
    """Note the newest line again in a keys database that was restored."""
    if link := chained.head(path()):
        _FILE.note(link)


def refuse_unwritable() -> None:
    """Make the folder and the file if they are not there; look whether they take more.

    Raises LedgerUnwritableError.
    """
    chained.touch(path())


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
