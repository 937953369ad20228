"""The LRU cache class of the server's processes.

Each cache that outlives a request is listed in `other_places`. With cachetools each
cache would need its own lock, and could weigh values only, not their source bytes. See
decision 54.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

Key = TypeVar("Key")
Value = TypeVar("Value")


#: Seconds after which an entry that nobody read is dropped, at the latest at the next
#: `put` after twice as many, so that a process holds what it works with and not all
#: that fits.
IDLE_SECONDS: Final = 600.0
#: Key of a mark among the entries: those before it were not used since it was set.
_MARK: Final[Any] = object()

#: Named caches, for as long as somebody holds them.
_named: WeakSet[Lru[Any, Any]] = WeakSet()
_naming = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Use of memory by one cache of this process.

    `weight` and `most` are bytes if `is_bytes`, else numbers of values.
    """

    name: str
    entries: int
    weight: int
    most: int
    is_bytes: bool


class Lru(Generic[Key, Value]):
    """LRU cache of values with a total weight up to `most` and an age limit.

    Entries that are not read for `IDLE_SECONDS` go, too. A value weighs 1 unless `put`
    says otherwise. Thread-safe. Callers can always make a cached value again. A `name`
    says what the cache keeps and lists it in `list_caches`; `unit_bytes` are the bytes
    in one unit of weight, None where weights count values. One value that alone is
    heavier than `most` is kept beside the others, if it weighs `largest` or less.
    """

    def __init__(
        self,
        most: int,
        *,
        seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        name: str = "",
        unit_bytes: int | None = None,
        largest: int = 0,
    ) -> None:
        self._most = most
        self._largest = largest
        self._seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._weight = 0
        #: Weight of the value that is heavier than `most`; part of no other weight.
        self._heavy = 0
        self._marked_until = -math.inf
        #: Value, weight, and the clock reading at which the entry expires.
        self._entries: OrderedDict[Key, tuple[Value, int, float]] = OrderedDict()
        self._name = name
        self._unit_bytes = unit_bytes
        if name:
            with _naming:
                _named.add(self)

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
        """Get the values of keys in order, None if absent. Cheaper than many gets."""
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
        """Cache a value; one too heavy to be kept drops no other.

        The newest that is heavier than the whole cache takes the place of the last.
        """
        with self._lock:
            self._remove(key)
            if (now := self._clock()) >= self._marked_until:
                self._drop_idle()
                self._marked_until = now + IDLE_SECONDS
            if weight > max(self._most, self._largest):
                return
            if weight > self._most:
                self._remove_heavy()
                self._heavy = weight
            else:
                self._weight += weight
            self._entries[key] = (value, weight, now + self._seconds)
            while self._weight > self._most:
                self._remove(next(iter(self._entries)))

    def has_room(self, weight: int) -> bool:
        """Return whether a new value of this weight would evict nothing."""
        with self._lock:
            return self._weight + weight <= self._most

    def pop(self, key: Key) -> None:
        with self._lock:
            self._remove(key)

    def list_items(self) -> list[tuple[Key, Value]]:
        """List the current entries, least recently used first."""
        with self._lock:
            items = self._entries.items()
            return [(key, entry[0]) for key, entry in items if key is not _MARK]

    def drop(self, unwanted: Callable[[Key, Value], bool]) -> None:
        """Drop the entries that `unwanted` selects. Cost: one call per entry."""
        for key, value in self.list_items():
            if unwanted(key, value):
                self.pop(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._weight = self._heavy = 0

    def measure(self) -> MemoryUse:
        """Measure the use of memory by this cache."""
        unit = self._unit_bytes or 1
        with self._lock:
            return MemoryUse(
                name=self._name,
                entries=len(self._entries) - (_MARK in self._entries),
                weight=(self._weight + self._heavy) * unit,
                most=(self._most + self._largest) * unit,
                is_bytes=self._unit_bytes is not None,
            )

    def _drop_idle(self) -> None:
        """Drop the entries not used since the last mark, and set a new one."""
        while _MARK in self._entries:
            self._remove(next(iter(self._entries)))
        self._entries[_MARK] = (_MARK, 0, math.inf)

    def _remove_heavy(self) -> None:
        if self._heavy:
            entries = self._entries.items()
            self._remove(next(k for k, entry in entries if entry[1] > self._most))

    def _remove(self, key: Key) -> None:
        if (entry := self._entries.pop(key, None)) is None:
            return
        if entry[1] > self._most:
            self._heavy = 0
        else:
            self._weight -= entry[1]


def list_caches() -> list[MemoryUse]:
    """Measure the named caches of this process, the largest limit first."""
    with _naming:
        caches = list(_named)
    return sorted(
        (each.measure() for each in caches),
        key=lambda use: (not use.is_bytes, -use.most, use.name),
    )
