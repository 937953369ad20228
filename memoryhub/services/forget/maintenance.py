"""Maintenance: while erasures are to be replayed, this process serves nothing.

A flag of the process, looked at before every request; `replays` sets it.
"""

from __future__ import annotations

from typing import Final

from memoryhub.errors import ErasuresToReplayError


class Maintenance:
    """How many erasures a restored backup has brought back."""

    def __init__(self) -> None:
        self.waiting = 0

    def require_none(self) -> None:
        """Raise ErasuresToReplayError while something is to be replayed."""
        if self.waiting:
            raise ErasuresToReplayError(erasures=self.waiting)

    @property
    def refusal_text(self) -> bytes:
        """Return what whoever asks is told, as a line of text."""
        refusal = ErasuresToReplayError()
        return f"{refusal.code}: {refusal.message}\n".encode()


#: The process's own.
maintenance: Final = Maintenance()
