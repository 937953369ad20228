"""How many payloads each key version has sealed, estimated without counting.

A random nonce begins with two zero bytes once in 65,536 seals. Only such a seal is
counted, as 65,536, and the counts go to the key's row when a key is next loaded: no
counter to share between processes and no write per seal.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from uuid import UUID

from django.db.models import F

from memoryhub.models.keys import SubjectKey

_MARK = b"\0\0"
SEALS_PER_MARK = 1 << 16
#: At most 2^31 seals a version: random 96-bit nonces then collide with a chance
#: below 2^-35. We change versions 2^27 earlier: the estimate at that point has a
#: standard deviation of 2^23.4, so the margin is eleven of them, less what other
#: processes seal in the minute before they load the new version.
SEAL_LIMIT = (1 << 31) - (1 << 27)

_lock = Lock()
_writing = Lock()
_notes: Counter[tuple[UUID, int]] = Counter()


def marked(nonce: bytes) -> bool:
    """Return whether this seal stands for 65,536 of them."""
    return nonce.startswith(_MARK)


def note(subject: UUID, *, version: int) -> None:
    """Remember one marked seal. Touches no database."""
    with _lock:
        _notes[subject, version] += 1


def flush() -> None:
    """Add what was noted to the key rows. No query when nothing was."""
    with _writing:
        with _lock:
            noted = dict(_notes)
        for (subject, version), marks in noted.items():
            # A destroyed key has no row; its count is of no more use to anybody.
            SubjectKey.objects.using("keys").filter(
                subject=subject, version=version
            ).update(seals=F("seals") + marks * SEALS_PER_MARK)
            with _lock:
                _notes[subject, version] -= marks
                if not _notes[subject, version]:
                    del _notes[subject, version]
