"""Anchors: whether the chains still reach where signed lines say they stood.

Never writes. A chain proves what is in it, and not that nothing was cut off behind.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from memoryhub.errors import LedgerBrokenError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.events import Event
from memoryhub.models.projects import Instance
from memoryhub.models.threads import Thread
from memoryhub.vault.proof import anchors
from memoryhub.vault.proof.anchors import Heads

_AT_ONCE = 2_000
#: What a database without an anchored thread comes to.
NONE = Heads(audit_seq=0, audit_hash=b"", threads=0, digest=hashlib.sha256().digest())
#: What a restored backup looks like too.
_ROLLED_BACK = ("threads_missing", "anchors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the newest line vouches for, and what is wrong with that."""

    #: Of the newest line; 0 and None before there is one.
    n: int = 0
    at: datetime | None = None
    threads: int = 0
    #: Empty, or `anchor_file`, `anchors_behind`, `anchors_ahead`, `anchors_mirror`,
    #: `anchors`, `threads_missing`, `audit_anchor`.
    wrong: str = ""
    #: The earlier line that the threads' anchors are as of: a backup was restored.
    as_of: int | None = None


def get_cut(thread: Thread) -> int | None:
    """Return the first seq that differs from what the thread's anchor vouches for.

    One query. An anchor that lies beyond the head shows a tail that was cut off.
    """
    seq, digest = thread.anchored_seq, bytes(thread.anchored_hash)
    if seq == 0:
        return None if digest == b"" else 1
    if not 0 < seq <= thread.head_seq:
        return max(0, thread.head_seq) + 1
    kept = Event.objects.filter(thread=thread, seq=seq, chain=digest).exists()
    return None if kept else seq


def get_heads() -> Heads:
    """Return the anchored heads by the databases, and where the audit log ends.

    Reads three columns of every thread, in batches. As of one moment only inside of a
    transaction, or while nobody anchors.
    """
    digest, count = hashlib.sha256(), 0
    rows = Thread.objects.filter(anchored_seq__gt=0).order_by("id")
    columns = rows.values_list("id", "anchored_seq", "anchored_hash")
    for thread, seq, chain in columns.iterator(chunk_size=_AT_ONCE):
        digest.update(thread.bytes + seq.to_bytes(8) + bytes(chain))
        count += 1
    seq, chain = Instance.objects.values_list("audit_seq", "audit_hash").get()
    return Heads(
        audit_seq=seq, audit_hash=bytes(chain), threads=count, digest=digest.digest()
    )


def get_standing() -> Standing:
    """Walk the file of signed lines and compare the newest with the databases."""
    try:
        anchors.check()
        ends, found = anchors.ends(), get_heads()
        while (later := anchors.ends()) != ends:
            # One was written or noted meanwhile.
            ends, found = later, get_heads()
        wrongs = [_differing(each.heads if each else NONE, found) for each in ends]
        wrong = "" if "" in wrongs else wrongs[0]
        newest = ends[wrongs.index(wrong)]
        as_of = _as_of(found.digest) if wrong in _ROLLED_BACK else None
    except LedgerBrokenError as broken:
        return Standing(n=_number(broken), wrong=_broken(broken))
    if newest is None:
        return Standing(wrong=wrong)
    return Standing(
        n=newest.n,
        at=newest.at,
        threads=newest.heads.threads,
        wrong=wrong,
        as_of=as_of,
    )


def get_audit_cut() -> int | None:
    """Return the first entry of the audit log that differs from the anchor, or None.

    Three queries and the end of a file. Raises LedgerBrokenError when that is not as it
    should be.
    """
    newest = anchors.newest()
    return _audit_cut(newest.heads) if newest else None


def _audit_cut(anchored: Heads) -> int | None:
    if not anchored.audit_seq:
        return None
    entries = AuditEntry.objects.filter(
        seq=anchored.audit_seq, hash=anchored.audit_hash
    )
    last = Instance.objects.values_list("audit_seq", flat=True).get()
    if anchored.audit_seq > last:
        return last + 1
    return None if entries.exists() else anchored.audit_seq


def _differing(anchored: Heads, found: Heads) -> str:
    if found.threads < anchored.threads:
        return "threads_missing"
    if found.of_threads != anchored.of_threads:
        return "anchors"
    return "audit_anchor" if _audit_cut(anchored) else ""


def _as_of(digest: bytes) -> int | None:
    lines = [each.n for each in anchors.anchors() if each.heads.digest == digest]
    return lines[-1] if lines else None


def _broken(broken: LedgerBrokenError) -> str:
    what = broken.detail.get("what")
    return f"anchors_{what}" if what else "anchor_file"


def _number(broken: LedgerBrokenError) -> int:
    n = broken.detail.get("n")
    return n if isinstance(n, int) else 0
