"""Estimate of the number of payloads sealed by each key version.

A random nonce begins with two zero bytes once in 65,536 seals. Only such a marked seal
is counted, as 65,536, and the counts go to the key's row when a key is next loaded.
Processes share no counter, and a seal costs no write.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from uuid import UUID

from django.db.models import F

from memoryhub.models.keys import SubjectKey

_MARK = b"\0\0"
SEALS_PER_MARK = 1 << 16
#: Most seals of a key version. At 2^31 seals random 96-bit nonces collide with a
#: probability below 2^-35. Versions change 2^27 seals earlier: the estimate there has a
#: standard deviation of 2^23.4, so the margin is eleven deviations, less the seals of
#: other processes in the minute before they load the new version.
SEAL_LIMIT = (1 << 31) - (1 << 27)

_lock = Lock()
_writing = Lock()
_counts: Counter[tuple[UUID, int]] = Counter()


def is_marked(nonce: bytes) -> bool:
    """Return whether the seal with this nonce counts, as 65,536 seals."""
    return nonce.startswith(_MARK)


def note(subject: UUID, *, version: int) -> None:
    """Count one marked seal in memory. No query."""
    with _lock:
        _counts[subject, version] += 1


def flush() -> None:
    """Add the counted seals to the key rows. No query when nothing was counted."""
    with _writing:
        with _lock:
            noted = dict(_counts)
        for (subject, version), marks in noted.items():
            # A destroyed key has no row and needs no count.
            SubjectKey.objects.using("keys").filter(
                subject=subject, version=version
            ).update(seals=F("seals") + marks * SEALS_PER_MARK)
            with _lock:
                _counts[subject, version] -= marks
                if not _counts[subject, version]:
                    del _counts[subject, version]
