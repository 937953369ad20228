"""Maintenance: while erasures are to be replayed, this process serves no requests.

A flag of the process, checked before every request; `replays` sets the flag.
"""

from __future__ import annotations

from typing import Final

from memoryhub.errors import ErasuresToReplayError


class Maintenance:
    """Number of erasures that a restored backup undid and that wait for a replay."""

    def __init__(self) -> None:
        self.waiting = 0

    def require_none(self) -> None:
        """Raise ErasuresToReplayError while erasures are to be replayed."""
        if self.waiting:
            raise ErasuresToReplayError(erasures=self.waiting)

    @property
    def refusal_text(self) -> bytes:
        """Text of the refusal that requests are answered, one line."""
        refusal = ErasuresToReplayError()
        return f"{refusal.code}: {refusal.message}\n".encode()


#: Maintenance flag of this process.
maintenance: Final = Maintenance()
