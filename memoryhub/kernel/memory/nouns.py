"""The nouns of working memory, a line each. Pure."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.memory import keys, notes, tasks
from memoryhub.kernel.parts import Part
from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.working_memory import Contents

MEMORY: tuple[Part, ...] = (
    keys.PART,
    tasks.PART,
    notes.PART,
)

#: By name, what they keep in working memory.
SLICES: dict[str, Slice[Any]] = {
    noun.slice.name: noun.slice for noun in MEMORY if noun.slice is not None
}
#: What of a checkpoint is restored unless parts are named, and what may be named.
RESTORED: tuple[str, ...] = ("keys", *SLICES)
RESTORABLE: tuple[str, ...] = (*RESTORED, "frames")


def counts(contents: Contents) -> dict[str, Any]:
    """What a checkpoint says of its contents; keys not yet swept included."""
    found: dict[str, Any] = {"keys": len(contents.keys)}
    for part in SLICES.values():
        found |= part.counts(part.get(contents))
    return found
