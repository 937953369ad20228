"""Removal of erased values from working memory and its checkpoints. Pure.

An erased value leaves all points that hold it alike, so the names that may differ
between two points stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rpds import HashTrieMap

from memoryhub.kernel.memory import checkpoint_tree
from memoryhub.kernel.memory.nouns import SLICES
from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.erased import ErasedPlaces
from memoryhub.kernel.state.paging import list_items
from memoryhub.kernel.state.working_memory import (
    Contents,
    KeyEntry,
    Resident,
    SavedCheckpoint,
    Touched,
    WorkingMemory,
)

#: Keys that erasure may have removed at a point; None: any.
Suspects = set[str] | None


class _ErasurePass:
    """One erasure's pass over all points; values shared by points are stripped once."""

    def __init__(
        self, gone: ErasedPlaces, resident: Callable[[Resident, ErasedPlaces], Resident]
    ) -> None:
        self.gone = gone
        self._resident = resident
        #: Stripped values by identity: points share unchanged values.
        self._slices: dict[tuple[str, int], Any] = {}
        self._residents: dict[tuple[int, ...], Resident] = {}

    def strip_contents(
        self, contents: Contents, suspects: Suspects
    ) -> tuple[Contents, set[str]]:
        """Return the contents without erased values, and the keys removed."""
        keys, size = contents.keys, contents.key_bytes
        went = set(self._list_erased_keys(keys, suspects))
        for name in went:
            size -= keys[name].bytes
            keys = keys.remove(name)
        stay = contents._replace(keys=keys, key_bytes=size)
        for part in SLICES.values():
            stay = part.put(stay, self._strip_slice(part, part.get(contents)))
        return stay, went

    def _list_erased_keys(
        self, keys: HashTrieMap[str, KeyEntry], suspects: Suspects
    ) -> Iterable[str]:
        if suspects is None:
            return [
                name
                for name, each in list_items(keys)
                if self.gone.has_clock(each.value)
            ]
        held = ((name, keys.get(name)) for name in suspects)
        return [name for name, each in held if each and self.gone.has_clock(each.value)]

    def _strip_slice(self, part: Slice[Any], value: Any) -> Any:
        key = (part.name, id(value))
        if key not in self._slices:
            self._slices[key] = part.without(value, self.gone)
        return self._slices[key]

    def strip_resident(self, resident: Resident) -> Resident:
        key = tuple(map(id, resident))
        if key not in self._residents:
            self._residents[key] = self._resident(resident, self.gone)
        return self._residents[key]


def remove_values(
    memory: WorkingMemory,
    gone: ErasedPlaces,
    *,
    resident: Callable[[Resident, ErasedPlaces], Resident],
) -> WorkingMemory:
    """Remove erased values; `resident` removes erased pages from a working set."""
    stripping = _ErasurePass(gone, resident)
    kept: dict[int, SavedCheckpoint] = {}
    suspects: dict[int, Suspects] = {}
    # In clock order a point's parent comes first.
    for clock, point in sorted(memory.checkpoints.items()):
        suspected = _unite_suspects(suspects, point.parent, point.touched)
        if point.joint:
            suspects[clock] = suspected
            kept[clock] = point
            continue
        contents, suspects[clock] = stripping.strip_contents(point.contents, suspected)
        held = stripping.strip_resident(point.resident)
        kept[clock] = point._replace(contents=contents, resident=held)
    suspected = _unite_suspects(suspects, memory.base, memory.touched)
    contents, _ = stripping.strip_contents(memory.contents, suspected)
    return memory._replace(
        contents=contents,
        checkpoints=HashTrieMap(kept),
        weight=sum(map(checkpoint_tree.compute_weight, kept.values())),
    )


def _unite_suspects(
    by_clock: dict[int, Suspects], above: int | None, touched: Touched
) -> Suspects:
    """Unite the keys removed at a point's parent with the names touched since."""
    before = None if above is None else by_clock[above]
    if before is None or touched is None:
        return None
    return before.union(touched)
