"""What operators do to pages, the TLB and the settings of paging.

Ordinary commands, under an actor of their own; none of them writes content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryhub import journal
from memoryhub.journal import Address, Order, Receipt
from memoryhub.kernel.commands import AmendThread, Command
from memoryhub.kernel.page_commands import (
    DeletePage,
    EvictPage,
    FlushTlb,
    InvalidateTlb,
    MadeLevels,
    MapPage,
    PinPage,
    UnpinPage,
)
from memoryhub.kernel.page_events import Tier
from memoryhub.kernel.pages import FULL
from memoryhub.models.threads import Thread
from memoryhub.queries import envelopes, pages


def pin(thread: Thread, page_id: str, *, actor: str) -> Receipt:
    """Keep a page in the working set. Raises PinBudgetError, NoRoomError."""
    return _perform(thread, PinPage(page_id=page_id, by="system"), actor)


def unpin(thread: Thread, page_id: str, *, actor: str) -> Receipt:
    """Let a page leave again; a repeat writes nothing."""
    return _perform(thread, UnpinPage(page_id=page_id, by="system"), actor)


def map_page(thread: Thread, page_id: str, *, actor: str, level: int) -> Receipt:
    """Map a page at a level, which is made first if it can be.

    `thread` comes with its subject. Raises NoRoomError, PinnedError, PinBudgetError.
    """
    command = MapPage(
        page_id=page_id, level=level, made=_made(thread, page_id, level), by="system"
    )
    return _perform(thread, command, actor)


def evict(thread: Thread, page_id: str, *, actor: str) -> Receipt:
    """Take a page out of the working set, or off the hot list. Raises PinnedError."""
    return _perform(thread, EvictPage(page_id=page_id, by="system"), actor)


def delete(thread: Thread, page_id: str, *, actor: str) -> Receipt:
    """Delete a page and purge its payloads. Raises DerivedPageError."""
    return _perform(thread, DeletePage(page_id=page_id, by="system"), actor)


def flush(thread: Thread, *, actor: str) -> Receipt:
    """Drop all entries of the TLB."""
    return _perform(thread, FlushTlb(by="system"), actor)


def invalidate(
    thread: Thread,
    *,
    actor: str,
    page_id: str | None = None,
    tier: Tier | None = None,
) -> Receipt:
    """Drop the entry of a page, or those of all pages in a tier."""
    command = InvalidateTlb(page_id=page_id, tier=tier, by="system")
    return _perform(thread, command, actor)


def configure(thread: Thread, *, actor: str, config: Mapping[str, Any]) -> Receipt:
    """Set paging's settings; None goes back to the default.

    Raises InvalidError naming the setting, PinBudgetError when pins no longer fit.
    """
    return _perform(thread, AmendThread(config=dict(config)), actor)


def _made(thread: Thread, page_id: str, level: int) -> MadeLevels | None:
    """The page's lower levels, if they may be needed and none is there."""
    settings = pages.settings_now(thread)
    entry = pages.current_entry(thread, page_id)
    if entry is None or (level == FULL and entry.full.cost <= settings.largest):
        return None
    return envelopes.make_levels(thread, entry, tokenizer=settings.tokenizer)


def _perform(thread: Thread, command: Command, actor: str) -> Receipt:
    address = Address(project=thread.project_id, name=thread.name)
    return journal.perform(Order(address=address, command=command, actor=actor))
