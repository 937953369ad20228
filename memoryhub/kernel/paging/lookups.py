"""Look-ups: one page named by one command, found in the TLB or in its row. Pure.

The event that a look-up leads to says which, and carries what a miss has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from memoryhub.errors import PageErasedError, PageUnknownError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging.entries import entry_body
from memoryhub.kernel.state.page_events import (
    By,
    EntryBody,
    Lookup,
    PageDeleted,
    PagePinned,
    PageUnpinned,
)
from memoryhub.kernel.state.pages import Entry


@dataclass(frozen=True, slots=True)
class Found:
    """What a look-up of one page has given."""

    entry: Entry | None
    #: None once an event has told of it.
    lookup: Lookup | None
    #: What a miss has read.
    read: EntryBody | None

    @property
    def live(self) -> Entry:
        """Return the entry of a page that is known to be there."""
        assert self.entry is not None
        return self.entry

    @property
    def without_lookup(self) -> Found:
        """Return the same for a further event of the command: a look-up counts once."""
        return Found(self.entry, None, None)

    def renewed(self, entry: Entry, *, thread: UUID) -> Found:
        """Return the same with the entry as the command itself has changed it."""
        read = None if self.read is None else entry_body(entry, thread=thread)
        return Found(entry, self.lookup, read)


def find(decision: Decision, page_id: str, pages: PageTable) -> Found:
    """Look one page up: in the TLB, else in its row. The event must tell of it."""
    held = decision.paging.tlb.find(page_id)
    if held is not None:
        return Found(held, "hit", None)
    entry = pages.entry(page_id)
    if entry is None:
        return Found(None, "miss", None)
    return Found(entry, "miss", entry_body(entry, thread=decision.state.id))


def emit_lookup(
    decision: Decision,
    kind: type[PagePinned | PageUnpinned | PageDeleted],
    found: Found,
    *,
    by: By,
    tier: str | None = None,
) -> None:
    """Emit what happens to a page that was looked up; `tier` is where it stood."""
    entry = found.live
    tier = tier or decision.paging.tier(entry.page_id) or entry.home
    decision.emit(
        kind(
            turn=decision.turn,
            by=by,
            page_id=entry.page_id,
            tier_before=tier,  # type: ignore[arg-type]  # closed words
            lookup=found.lookup,
            entry=found.read,
        )
    )


def find_live(
    decision: Decision, page_id: str, pages: PageTable
) -> tuple[Entry, Found]:
    """Find as `find` does.

    Raises PageUnknownError or PageErasedError when the page is not there.
    """
    found = find(decision, page_id, pages)
    if found.entry is None:
        raise PageErasedError if pages.deleted(page_id) else PageUnknownError
    return found.entry, found
