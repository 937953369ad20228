"""Look-ups: find the one page a command names, in the TLB or in its row. Pure.

The event that follows a look-up says whether it was a hit, and carries the entry that a
miss has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from memoryhub.errors import PageErasedError, PageUnknownError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging.entries import build_entry_body
from memoryhub.kernel.state.page_events import (
    By,
    EntryBody,
    Lookup,
    PageDeleted,
    PagePinned,
    PageUnpinned,
)
from memoryhub.kernel.state.pages import PageEntry


@dataclass(frozen=True, slots=True)
class PageLookup:
    """Result of the look-up of one page."""

    entry: PageEntry | None
    #: Hit or miss; None once an event has recorded the look-up.
    lookup: Lookup | None
    #: Entry that a miss has read.
    read: EntryBody | None

    @property
    def live(self) -> PageEntry:
        """Return the entry of a page that is known to exist."""
        assert self.entry is not None
        return self.entry

    @property
    def without_lookup(self) -> PageLookup:
        """Return the result for a further event: a look-up counts once a command."""
        return PageLookup(self.entry, None, None)

    def replace_entry(self, entry: PageEntry, *, thread: UUID) -> PageLookup:
        """Return the result with the entry as the command itself has changed it."""
        read = None if self.read is None else build_entry_body(entry, thread=thread)
        return PageLookup(entry, self.lookup, read)


def find_page(decision: Decision, page_id: str, pages: PageTable) -> PageLookup:
    """Look one page up: in the TLB, else in its row. An event must record this."""
    held = decision.paging.tlb.find(page_id)
    if held is not None:
        return PageLookup(held, "hit", None)
    entry = pages.find_entry(page_id)
    if entry is None:
        return PageLookup(None, "miss", None)
    return PageLookup(entry, "miss", build_entry_body(entry, thread=decision.state.id))


def emit_lookup(
    decision: Decision,
    kind: type[PagePinned | PageUnpinned | PageDeleted],
    found: PageLookup,
    *,
    by: By,
    tier: str | None = None,
) -> None:
    """Emit the event of a page that was looked up; `tier` is its tier before."""
    entry = found.live
    tier = tier or decision.paging.find_tier(entry.page_id) or entry.home
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


def require_page(
    decision: Decision, page_id: str, pages: PageTable
) -> tuple[PageEntry, PageLookup]:
    """Look one page up as `find_page` does.

    Raises PageUnknownError or PageErasedError when the page is not there.
    """
    found = find_page(decision, page_id, pages)
    if found.entry is None:
        raise PageErasedError if pages.is_deleted(page_id) else PageUnknownError
    return found.entry, found
