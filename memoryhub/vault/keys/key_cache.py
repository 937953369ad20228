"""A bounded cache of opened keys: least recently used goes, and so does what is old."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Opened = TypeVar("Opened")


class KeyCache(Generic[Opened]):
    """At most `size` entries, none older than `seconds`. Safe to share by threads."""

    def __init__(
        self,
        *,
        size: int = 1_000,
        seconds: float = 60,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, tuple[float, Opened]] = OrderedDict()

    def get(self, key: Hashable) -> Opened | None:
        with self._lock:
            if (entry := self._entries.get(key)) is None:
                return None
            if self._clock() - entry[0] >= self._seconds:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: Hashable, opened: Opened) -> None:
        with self._lock:
            self._entries[key] = (self._clock(), opened)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def drop(self, unwanted: Callable[[Hashable], bool]) -> None:
        """Forget what stands under such keys."""
        with self._lock:
            for key in [key for key in self._entries if unwanted(key)]:
                del self._entries[key]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
