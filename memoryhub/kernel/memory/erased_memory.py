"""Working memory without values that were erased, in checkpoints too. Pure.

A value that stood at several points goes from all of them alike, so the names that may
differ between two points stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rpds import HashTrieMap

from memoryhub.kernel.memory import checkpoint_tree
from memoryhub.kernel.memory.nouns import SLICES
from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.erased import Erased
from memoryhub.kernel.state.paging import listed
from memoryhub.kernel.state.working_memory import (
    Checkpoint,
    Contents,
    KeyEntry,
    Resident,
    Touched,
    WorkingMemory,
)

#: Keys that may have gone at a point; None: any.
Suspects = set[str] | None


class _Stripping:
    """One erasure's way through the points; what they share is stripped once."""

    def __init__(
        self, gone: Erased, resident: Callable[[Resident, Erased], Resident]
    ) -> None:
        self.gone = gone
        self._resident = resident
        #: By identity: points share what did not change between them.
        self._slices: dict[tuple[str, int], Any] = {}
        self._residents: dict[tuple[int, ...], Resident] = {}

    def contents(
        self, contents: Contents, suspects: Suspects
    ) -> tuple[Contents, set[str]]:
        """The contents as they stay, and the keys that went."""
        keys, size = contents.keys, contents.key_bytes
        went = set(self._erased(keys, suspects))
        for name in went:
            size -= keys[name].bytes
            keys = keys.remove(name)
        stay = contents._replace(keys=keys, key_bytes=size)
        for part in SLICES.values():
            stay = part.put(stay, self._slice(part, part.get(contents)))
        return stay, went

    def _erased(
        self, keys: HashTrieMap[str, KeyEntry], suspects: Suspects
    ) -> Iterable[str]:
        if suspects is None:
            return [name for name, each in listed(keys) if self.gone.at(each.value)]
        held = ((name, keys.get(name)) for name in suspects)
        return [name for name, each in held if each and self.gone.at(each.value)]

    def _slice(self, part: Slice[Any], value: Any) -> Any:
        key = (part.name, id(value))
        if key not in self._slices:
            self._slices[key] = part.without(value, self.gone)
        return self._slices[key]

    def resident(self, resident: Resident) -> Resident:
        key = tuple(map(id, resident))
        if key not in self._residents:
            self._residents[key] = self._resident(resident, self.gone)
        return self._residents[key]


def without_values(
    memory: WorkingMemory,
    gone: Erased,
    *,
    resident: Callable[[Resident, Erased], Resident],
) -> WorkingMemory:
    """Without erased values; `resident` takes what is erased out of a working set."""
    stripping = _Stripping(gone, resident)
    kept: dict[int, Checkpoint] = {}
    suspects: dict[int, Suspects] = {}
    # What a point descends from was there before it.
    for clock, point in sorted(memory.checkpoints.items()):
        suspected = _suspects(suspects, point.parent, point.touched)
        if point.joint:
            suspects[clock] = suspected
            kept[clock] = point
            continue
        contents, suspects[clock] = stripping.contents(point.contents, suspected)
        held = stripping.resident(point.resident)
        kept[clock] = point._replace(contents=contents, resident=held)
    suspected = _suspects(suspects, memory.base, memory.touched)
    contents, _ = stripping.contents(memory.contents, suspected)
    return memory._replace(
        contents=contents,
        checkpoints=HashTrieMap(kept),
        weight=sum(map(checkpoint_tree.weight, kept.values())),
    )


def _suspects(
    by_clock: dict[int, Suspects], above: int | None, touched: Touched
) -> Suspects:
    """Keys that went above a point, and those touched since."""
    before = None if above is None else by_clock[above]
    if before is None or touched is None:
        return None
    return before.union(touched)
