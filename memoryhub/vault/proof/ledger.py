"""The ledger of erasures: a file of signed, chained lines outside the databases.

Lines hold ids and digests only. After the restore of an older database the ledger
tells which erasures to replay. See decision 18.
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
path, genesis = _FILE.get_path, _FILE.compute_genesis
mirror, recover, noted = _FILE.update_mirror, _FILE.recover, _FILE.get_noted


class LedgerKind(StrEnum):
    """Stage of the erasure that a line records."""

    #: The erasure will be done; the line is written before anything is erased.
    INTENT = "intent"
    #: The erasure is complete; the line has the digest of the receipt.
    DONE = "done"
    #: The erasure is complete again, after a restore.
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """One line of the ledger: ids and digests, never a name or content."""

    n: int
    at: datetime
    kind: LedgerKind
    erasure: UUID
    project: UUID
    subject: UUID
    #: Keyed digest of the user id; None for the anonymous subject.
    subject_ref: bytes | None
    scope: str
    #: Reason as a closed word; a replayed erasure has the same reason.
    reason: str
    #: Number of the request in the operator's own files, such as LEGAL-42.
    ticket: str | None
    #: Targets of the erasure in the form of its scope; plain JSON.
    targets: Sequence[Any]
    receipt_sha256: bytes | None
    hash: bytes

    @classmethod
    def from_link(cls, link: chained.Link) -> Self:
        """Parse a line. Raises LedgerBrokenError for a line that is not ours."""
        says = link.says
        try:
            return cls(
                n=link.n,
                at=datetime.fromisoformat(says["at"]),
                kind=LedgerKind(says["kind"]),
                erasure=UUID(says["erasure"]),
                project=UUID(says["project"]),
                subject=UUID(says["subject"]),
                subject_ref=_parse_hex(says["subject_ref"]),
                scope=says["scope"],
                reason=says["reason"],
                ticket=says["ticket"],
                targets=tuple(says["targets"]),
                receipt_sha256=_parse_hex(says["receipt_sha256"]),
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
) -> LedgerLine:
    """Write a line and wait until it is on disk, in the ledger and if possible in the
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
    return LedgerLine.from_link(_FILE.write(says))


def iter_lines(*, after: int = 0) -> Iterator[LedgerLine]:
    """Yield the lines with n > `after`, oldest first. Raises LedgerBrokenError."""
    for link in _FILE.iter_links():
        if link.n > after:
            yield LedgerLine.from_link(link)


def get_newest() -> LedgerLine | None:
    """Return the newest line, or None. Reads only the end of the file.

    Raises LedgerBrokenError, also when the file is shorter or longer than noted.
    """
    link = _FILE.get_newest()
    return LedgerLine.from_link(link) if link else None


def check(
    *, keys: Mapping[str, bytes] | None = None, restored: bool = False
) -> LedgerLine | None:
    """Check the whole ledger; return its newest line.

    With `restored` the keys database may be behind the ledger. Raises LedgerBrokenError
    with the number of the first line that is missing or not ours.
    """
    link = _FILE.check(keys=keys, restored=restored)
    return LedgerLine.from_link(link) if link else None


def catch_up() -> None:
    """Note the newest line again in a keys database that was restored."""
    if link := chained.read_head(path()):
        _FILE.note(link)


def refuse_unwritable() -> None:
    """Create the folder and the file if absent, and check that the file is writable.

    Raises LedgerUnwritableError.
    """
    chained.touch(path())


def _parse_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
