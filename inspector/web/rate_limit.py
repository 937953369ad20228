"""Rate limit of guesses by address. In memory, per process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from memoryhub.vault.registry.lru import Lru

#: Most addresses remembered.
_MAX_ADDRESSES = 10_000


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """A limit of `allowed` attempts in `seconds` seconds from one address."""

    allowed: int
    seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _seen: Lru[str, list[float]] = field(default_factory=lambda: Lru(_MAX_ADDRESSES))

    def count_attempt(self, address: str) -> bool:
        """Count an attempt if the limit allows it; return False beyond the limit."""
        now = self.clock()
        lately = [t for t in self._seen.get(address) or [] if now - t < self.seconds]
        fits = len(lately) < self.allowed
        if fits:
            lately.append(now)
        self._seen.put(address, lately)
        return fits

    def forget(self) -> None:
        self._seen.clear()
