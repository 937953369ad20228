"""The nouns of a thread, a line each. Pure.

What acts on all of them (threads, checkpoints, erasing) stands in `registry`.
"""

from __future__ import annotations

from memoryhub.kernel.memory.nouns import MEMORY
from memoryhub.kernel.paging import page_parts, tlb_upkeep
from memoryhub.kernel.parts import Part
from memoryhub.kernel.threads import slots
from memoryhub.kernel.turns import own_tools, runs, turns

NOUNS: tuple[Part, ...] = (
    slots.PART,
    runs.PART,
    page_parts.PART,
    turns.PART,
    tlb_upkeep.PART,
    own_tools.PART,
    *MEMORY,
)
