"""chuk-ai-session-manager pages; runs in the peers' environment.

Its TLB is looked up, or it chooses what to evict; each as often as it is told.
"""

from __future__ import annotations

import json
import sys
import time

from chuk_ai_session_manager.memory.models import (  # type: ignore[import-not-found]  # a peer's
    MemoryPage,
    PageTableEntry,
)
from chuk_ai_session_manager.memory.tlb import PageTLB  # type: ignore[import-not-found]  # a peer's
from chuk_ai_session_manager.memory.working_set import (  # type: ignore[import-not-found]  # a peer's
    WorkingSetManager,
)


def look_up(entries: int, rounds: int) -> float:
    """Return CPU seconds of looking up all entries, in a jumping order."""
    tlb = PageTLB(max_entries=entries)
    for number in range(entries):
        tlb.insert(PageTableEntry(page_id=f"page-{number}", tier="L0"))
    names = [f"page-{number * 37 % entries}" for number in range(entries)]
    start = time.process_time()
    for _ in range(rounds):
        for name in names:
            tlb.lookup(name)
    seconds = time.process_time() - start
    assert tlb.hits == entries * rounds
    return seconds


def choose(frames: int, rounds: int) -> float:
    """Return CPU seconds of listing victims."""
    pages = WorkingSetManager()
    for number in range(frames):
        page = MemoryPage(page_id=f"page-{number}", modality="text", size_tokens=100)
        assert pages.add_to_l0(page)
        if number % 10 == 0:
            pages.pinned_set.pin(page.page_id)
    found = []
    start = time.process_time()
    for _ in range(rounds):
        found = pages.get_eviction_candidates(tokens_needed=10_000)
    seconds = time.process_time() - start
    assert len(found) == frames * 9 // 10
    return seconds


WORK = {"look_up": look_up, "choose": choose}


def main(what: str, size: str, rounds: str) -> None:
    seconds = WORK[what](int(size), int(rounds))
    sys.stdout.write(json.dumps({"cpu_seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
