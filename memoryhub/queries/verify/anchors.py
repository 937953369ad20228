"""Anchors: checks that the chains reach the heads that signed lines record.

Never writes. A chain proves its own entries, but not that its end was not cut off.
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
from memoryhub.vault.proof.anchors import AnchoredHeads

_AT_ONCE = 2_000
#: Heads of a database without an anchored thread.
NO_HEADS = AnchoredHeads(
    audit_seq=0, audit_hash=b"", threads=0, digest=hashlib.sha256().digest()
)
#: Differences that a restored backup shows as well.
_ROLLED_BACK = ("threads_missing", "anchors")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorState:
    """The newest anchor line, and how the databases differ from it."""

    #: Number and time of the newest line; 0 and None before the first line.
    n: int = 0
    at: datetime | None = None
    threads: int = 0
    #: Empty if right; else `anchor_file`, `anchors_behind`, `anchors_ahead`,
    #: `anchors_mirror`, `anchors`, `threads_missing` or `audit_anchor`.
    wrong: str = ""
    #: An earlier line that the threads match, as after restoring a backup; else None.
    as_of: int | None = None


def find_cut(thread: Thread) -> int | None:
    """Return the first seq that differs from the thread's anchor, or None.

    One query. An anchor beyond the head shows that the journal's end was cut off.
    """
    seq, digest = thread.anchored_seq, bytes(thread.anchored_hash)
    if seq == 0:
        return None if digest == b"" else 1
    if not 0 < seq <= thread.head_seq:
        return max(0, thread.head_seq) + 1
    kept = Event.objects.filter(thread=thread, seq=seq, chain=digest).exists()
    return None if kept else seq


def get_heads() -> AnchoredHeads:
    """Return the anchored heads in the databases, and the end of the audit log.

    Reads three columns of every thread, in batches. The heads are of one moment only
    inside of a transaction, or while no anchor is written.
    """
    digest, count = hashlib.sha256(), 0
    rows = Thread.objects.filter(anchored_seq__gt=0).order_by("id")
    columns = rows.values_list("id", "anchored_seq", "anchored_hash")
    for thread, seq, chain in columns.iterator(chunk_size=_AT_ONCE):
        digest.update(thread.bytes + seq.to_bytes(8) + bytes(chain))
        count += 1
    seq, chain = Instance.objects.values_list("audit_seq", "audit_hash").get()
    return AnchoredHeads(
        audit_seq=seq, audit_hash=bytes(chain), threads=count, digest=digest.digest()
    )


def check_anchors() -> AnchorState:
    """Walk the file of signed lines and compare the newest with the databases."""
    try:
        anchors.check()
        ends, found = anchors.list_ends(), get_heads()
        while (later := anchors.list_ends()) != ends:
            # A line was written or noted meanwhile: read the heads again.
            ends, found = later, get_heads()
        wrongs = [
            _find_difference(each.heads if each else NO_HEADS, found) for each in ends
        ]
        wrong = "" if "" in wrongs else wrongs[0]
        newest = ends[wrongs.index(wrong)]
        as_of = _find_line(found.digest) if wrong in _ROLLED_BACK else None
    except LedgerBrokenError as broken:
        return AnchorState(n=_get_line_number(broken), wrong=_get_defect(broken))
    if newest is None:
        return AnchorState(wrong=wrong)
    return AnchorState(
        n=newest.n,
        at=newest.at,
        threads=newest.heads.threads,
        wrong=wrong,
        as_of=as_of,
    )


def find_audit_cut() -> int | None:
    """Return the first entry of the audit log that differs from the anchor, or None.

    Three queries, and reads the end of a file. Raises LedgerBrokenError when the file
    is broken.
    """
    newest = anchors.get_newest()
    return _find_audit_cut(newest.heads) if newest else None


def _find_audit_cut(anchored: AnchoredHeads) -> int | None:
    if not anchored.audit_seq:
        return None
    entries = AuditEntry.objects.filter(
        seq=anchored.audit_seq, hash=anchored.audit_hash
    )
    last = Instance.objects.values_list("audit_seq", flat=True).get()
    if anchored.audit_seq > last:
        return last + 1
    return None if entries.exists() else anchored.audit_seq


def _find_difference(anchored: AnchoredHeads, found: AnchoredHeads) -> str:
    if found.threads < anchored.threads:
        return "threads_missing"
    if found.of_threads != anchored.of_threads:
        return "anchors"
    return "audit_anchor" if _find_audit_cut(anchored) else ""


def _find_line(digest: bytes) -> int | None:
    lines = [each.n for each in anchors.iter_anchors() if each.heads.digest == digest]
    return lines[-1] if lines else None


def _get_defect(broken: LedgerBrokenError) -> str:
    what = broken.detail.get("what")
    return f"anchors_{what}" if what else "anchor_file"


def _get_line_number(broken: LedgerBrokenError) -> int:
    n = broken.detail.get("n")
    return n if isinstance(n, int) else 0
