"""Tries: how often an address may guess at something. In memory, per process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

WINDOW_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class Tries:
    """At most `allowed` tries in a minute from one address."""

    allowed: int
    #: Addresses remembered at most; the one not seen longest goes first.
    kept: int = 10_000
    clock: Callable[[], float] = time.monotonic
    _seen: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)

    def take(self, address: str) -> bool:
        """Count a try. False when there were too many."""
        now = self.clock()
        lately = [t for t in self._seen.get(address, []) if now - t < WINDOW_SECONDS]
        fits = len(lately) < self.allowed
        if fits:
            lately.append(now)
        self._seen[address] = lately
        self._seen.move_to_end(address)
        while len(self._seen) > self.kept:
            self._seen.popitem(last=False)
        return fits

    def forget(self) -> None:
        self._seen.clear()
