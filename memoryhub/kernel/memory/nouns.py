"""The nouns of working memory, a line each, and what follows from their slices. Pure.

What acts on all nouns of a thread (threads, checkpoints, erasing) stands in `registry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from memoryhub.kernel.memory import keys, notes, tasks
from memoryhub.kernel.parts import Capacity, Part
from memoryhub.kernel.slices import Measure, MeasurePlace, Moved, Slice
from memoryhub.kernel.state.bodies import Ours
from memoryhub.kernel.state.working_memory import Contents

NOUNS: tuple[Part, ...] = (
    keys.PART,
    tasks.PART,
    notes.PART,
)

#: By name, what they keep in working memory.
SLICES: dict[str, Slice[Any]] = {
    noun.slice.name: noun.slice for noun in NOUNS if noun.slice is not None
}
#: What of a checkpoint is restored unless parts are named, and what may be named.
RESTORED: tuple[str, ...] = ("keys", *SLICES)
RESTORABLE: tuple[str, ...] = (*RESTORED, "frames")

#: What bounds each noun, by the name of the setting.
LIMITS: dict[str, Capacity] = {
    n: each for noun in NOUNS for n, each in noun.limits.items()
}


def _measures(place: MeasurePlace) -> Iterator[tuple[Slice[Any], str, Measure]]:
    for part in SLICES.values():
        for name, measure in part.measures.items():
            if place in measure.places:
                yield part, name, measure


def measured(contents: Contents, place: MeasurePlace) -> dict[str, Any]:
    """What is reported of the contents at a place, keys left out."""
    return {
        name: measure.read(part.get(contents))
        for part, name, measure in _measures(place)
    }


def counts(contents: Contents) -> dict[str, Any]:
    """What a checkpoint says of its contents; keys not yet swept included."""
    return {"keys": len(contents.keys), **measured(contents, "checkpoint")}


def measured_fields(place: MeasurePlace) -> dict[str, Any]:
    """The same as fields of a body, by the names of the slices: each with its type."""
    found = sorted(_measures(place), key=lambda each: each[0].name)
    return {name: measure.kind for _, name, measure in found}


#: Fields of `checkpoint.restored`: how many records of a slice went and came.
MOVED: dict[str, Any] = {
    part.name: Annotated[int, Ours(), Field(default=0)]
    for part in SLICES.values()
    if part.many
}


def moved(found: Mapping[str, Moved]) -> dict[str, Any]:
    """Those fields, of what differs by slice."""
    return {name: sum(found.get(name, ())) for name in MOVED}
