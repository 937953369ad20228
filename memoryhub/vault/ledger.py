"""The ledger of erasures: what was to be forgotten, outside of what can be restored.

A file of signed, chained lines with ids and digests only. Whoever restores an older
database finds here what has to be erased once more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import structlog
from django.conf import settings

from memoryhub.errors import LedgerBrokenError, LedgerUnwritableError
from memoryhub.models.keys import KeyMeta
from memoryhub.vault import chained, signing

log = structlog.get_logger()


class Kind(StrEnum):
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
    kind: Kind
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
        """Raises LedgerBrokenError for a line that we did not write."""
        says = link.says
        try:
            return cls(
                n=link.n,
                at=datetime.fromisoformat(says["at"]),
                kind=Kind(says["kind"]),
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
    """Write a line and wait until it is on disk.

    Raises LedgerUnwritableError, after which there is no such line. The mirror follows
    as far as it can: one that can't be written holds up no erasure.
    """
    says = {
        "at": at.isoformat(timespec="microseconds"),
        "kind": Kind(kind),
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
    link = chained.append(path(), says, genesis=genesis(), signer=signing.current())
    mirror()
    return Line.of(link)


def lines(*, after: int = 0) -> Iterator[Line]:
    """The lines with n > `after`, oldest first. Raises LedgerBrokenError."""
    for link in chained.iter_links(path()):
        if link.n > after:
            yield Line.of(link)


def head() -> Line | None:
    """The newest line, or None. Reads no more than the file's end."""
    link = chained.head(path())
    return Line.of(link) if link else None


def check(*, keys: Mapping[str, bytes] | None = None) -> Line | None:
    """Walk the whole ledger; returns its newest line.

    Raises LedgerBrokenError with the number of the first line that is none of ours.
    """
    keys = signing.public_keys() if keys is None else keys
    link = chained.check(path(), genesis=genesis(), keys=keys)
    return Line.of(link) if link else None


def refuse_unwritable() -> None:
    """Make the folder and the file if they are not there; look whether they take more.

    Raises LedgerUnwritableError.
    """
    chained.touch(path())


def recover() -> int:
    """Take over what only the mirror has; returns how many bytes.

    The longer of the two counts: a ledger is never replaced by a shorter one. Raises
    LedgerBrokenError when neither is the other's beginning.
    """
    copy = mirror_path()
    if copy is None or not copy.exists():
        return 0
    ours, theirs = chained.head(path()), chained.head(copy)
    if theirs is None or (ours is not None and ours.n >= theirs.n):
        return 0
    return chained.copy(copy, path())


def mirror() -> bool:
    """Bring the mirror up to the ledger; whether it is, if there is to be one."""
    copy = mirror_path()
    if copy is None:
        return True
    try:
        chained.copy(path(), copy)
    except (LedgerUnwritableError, LedgerBrokenError) as failure:
        log.error("ledger.mirror_failed", code=failure.code)
        return False
    return True


def genesis() -> bytes:
    """What the first line follows: another instance's ledger is none of ours."""
    instance = KeyMeta.objects.using("keys").values_list("instance", flat=True).get()
    return hashlib.sha256(b"memoryhub.ledger/1" + instance.bytes).digest()


def path() -> Path:
    folder: Path = settings.LEDGER
    return folder / "erasures.jsonl"


def mirror_path() -> Path | None:
    folder: Path | None = settings.LEDGER_MIRROR
    return folder and folder / "erasures.jsonl"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
