"""The nouns of a thread, a line each. Pure.

What acts on all of them (threads, checkpoints, erasing) stands in `registry`.
"""

from __future__ import annotations

from typing import Any

from memoryhub.kernel import (
    keys,
    notes,
    own_tools,
    page_parts,
    runs,
    slots,
    tasks,
    tlb_upkeep,
    turns,
)
from memoryhub.kernel.parts import Part
from memoryhub.kernel.slices import Slice
from memoryhub.kernel.working_memory import Contents

NOUNS: tuple[Part, ...] = (
    slots.PART,
    runs.PART,
    page_parts.PART,
    turns.PART,
    tlb_upkeep.PART,
    own_tools.PART,
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


def counts(contents: Contents) -> dict[str, Any]:
    """What a checkpoint says of its contents; keys not yet swept included."""
    found: dict[str, Any] = {"keys": len(contents.keys)}
    for part in SLICES.values():
        found |= part.counts(part.get(contents))
    return found
