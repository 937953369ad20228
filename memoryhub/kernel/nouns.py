"""The nouns of a thread, a line each. Pure.

What acts on all of them (threads, checkpoints, erasing) stands in `registry`.
"""

from __future__ import annotations

from memoryhub.kernel import own_tools, page_parts, runs, slots, tlb_upkeep, turns
from memoryhub.kernel.memory_nouns import MEMORY
from memoryhub.kernel.parts import Part

NOUNS: tuple[Part, ...] = (
    slots.PART,
    runs.PART,
    page_parts.PART,
    turns.PART,
    tlb_upkeep.PART,
    own_tools.PART,
    *MEMORY,
)
