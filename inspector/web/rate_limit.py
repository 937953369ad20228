"""Limit how often an address may guess at something. In memory, per process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from memoryhub.vault.registry.lru import Lru

#: Addresses remembered at most.
_KEPT = 10_000


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """Allow at most so many attempts in so many seconds from one address."""

    allowed: int
    seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _seen: Lru[str, list[float]] = field(default_factory=lambda: Lru(_KEPT))

    def take(self, address: str) -> bool:
        """Count an attempt. False when there were too many."""
        now = self.clock()
        lately = [t for t in self._seen.get(address) or [] if now - t < self.seconds]
        fits = len(lately) < self.allowed
        if fits:
            lately.append(now)
        self._seen.put(address, lately)
        return fits

    def forget(self) -> None:
        self._seen.clear()
