"""The one cache of a process: what was used longest ago goes first.

Each that outlives a request is listed in `other_places`. With cachetools each would
need a lock of its own, and could weigh values only, not the bytes they came from.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Lru(Generic[Key, Value]):
    """At most `most` by weight, each value 1 unless put with another, none too old.

    Safe between threads. Never needed for a right answer: who keeps something here can
    make it again.
    """

    def __init__(
        self,
        most: int,
        *,
        seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._weight = 0
        #: Value, weight, and until when it holds.
        self._entries: OrderedDict[Key, tuple[Value, int, float]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if (entry := self._entries.get(key)) is None:
                return None
            if self._clock() >= entry[2]:
                self._remove(key)
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def get_all(self, keys: Iterable[Key]) -> list[Value | None]:
        """Return what it holds of these, in their order. Cheaper than to get each."""
        found = list[Value | None]()
        with self._lock:
            now = self._clock()
            for key in keys:
                entry = self._entries.get(key)
                if entry is None or now >= entry[2]:
                    found.append(None)
                    continue
                self._entries.move_to_end(key)
                found.append(entry[0])
        return found

    def put(self, key: Key, value: Value, *, weight: int = 1) -> None:
        with self._lock:
            self._remove(key)
            self._entries[key] = (value, weight, self._clock() + self._seconds)
            self._weight += weight
            while self._weight > self._most:
                self._remove(next(iter(self._entries)))

    def pop(self, key: Key) -> None:
        with self._lock:
            self._remove(key)

    def items(self) -> list[tuple[Key, Value]]:
        """Return what it holds by now, longest unused first."""
        with self._lock:
            return [(key, entry[0]) for key, entry in self._entries.items()]

    def drop(self, unwanted: Callable[[Key, Value], bool]) -> None:
        """Forget what is unwanted. Cost: a look at each."""
        for key, value in self.items():
            if unwanted(key, value):
                self.pop(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def _remove(self, key: Key) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._weight -= entry[1]
