"""The nouns of working memory, and the tables built from their slices. Pure.

Parts that act on all nouns of a thread (threads, checkpoints, erasing) are listed in
`registry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from memoryhub.kernel.memory import keys, notes, tasks
from memoryhub.kernel.parts import Capacity, KernelPart
from memoryhub.kernel.slices import Measure, MeasurePlace, RecordMoves, Slice
from memoryhub.kernel.state.bodies import ServerMade
from memoryhub.kernel.state.working_memory import Contents

NOUNS: tuple[KernelPart, ...] = (
    keys.PART,
    tasks.PART,
    notes.PART,
)

#: Slices that the nouns keep in working memory, by name.
SLICES: dict[str, Slice[Any]] = {
    noun.slice.name: noun.slice for noun in NOUNS if noun.slice is not None
}
#: Parts that a restore takes from a checkpoint by default, and parts it may name.
RESTORED: tuple[str, ...] = ("keys", *SLICES)
RESTORABLE: tuple[str, ...] = (*RESTORED, "frames")

#: Capacity of each noun, by the name of its setting.
LIMITS: dict[str, Capacity] = {
    n: each for noun in NOUNS for n, each in noun.limits.items()
}


def _iter_measures(place: MeasurePlace) -> Iterator[tuple[Slice[Any], str, Measure]]:
    for part in SLICES.values():
        for name, measure in part.measures.items():
            if place in measure.places:
                yield part, name, measure


def measure_contents(contents: Contents, place: MeasurePlace) -> dict[str, Any]:
    """Compute the measures of the contents reported at a place, keys left out."""
    return {
        name: measure.read(part.get(contents))
        for part, name, measure in _iter_measures(place)
    }


def count_contents(contents: Contents) -> dict[str, Any]:
    """Count the contents for a checkpoint event; keys not yet swept included."""
    return {"keys": len(contents.keys), **measure_contents(contents, "checkpoint")}


def build_measured_fields(place: MeasurePlace) -> dict[str, Any]:
    """Build the body fields of the measures at a place: name to type, by slice name."""
    found = sorted(_iter_measures(place), key=lambda each: each[0].name)
    return {name: measure.kind for _, name, measure in found}


#: Fields of `checkpoint.restored`: number of a slice's records that left and came.
MOVED_FIELDS: dict[str, Any] = {
    part.name: Annotated[int, ServerMade(), Field(default=0)]
    for part in SLICES.values()
    if part.many
}


def build_moved_fields(found: Mapping[str, RecordMoves]) -> dict[str, Any]:
    """Build the `checkpoint.restored` fields from the moved records by slice."""
    return {name: sum(found.get(name, ())) for name in MOVED_FIELDS}
