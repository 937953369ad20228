"""Operators' commands for pages, the TLB and the settings of paging.

Ordinary commands with the operator as actor; no command writes content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from memoryhub import journal
from memoryhub.journal import Address, Order, OrderReceipt
from memoryhub.kernel.commands import AmendThread, Command, MadeLevels
from memoryhub.kernel.paging.page_commands import (
    ClearPrefetch,
    DeletePage,
    EvictPage,
    FlushTlb,
    InvalidateTlb,
    MapPage,
    PinPage,
    UnpinPage,
)
from memoryhub.kernel.state.pages import FULL, Tier
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.turns import envelopes

Act = PinPage | UnpinPage | MapPage | EvictPage
Verb = Literal["pin", "unpin", "map", "evict"]


def build_command(
    thread: Thread, verb: Verb, page_id: str, *, level: int = FULL
) -> Act:
    """Build the command of a verb for a page; `level` is the level to map at.

    Makes the levels that mapping may need. `thread` comes with its subject.
    """
    if verb == "pin":
        return PinPage(page_id=page_id, by="system")
    if verb == "unpin":
        return UnpinPage(page_id=page_id, by="system")
    if verb == "evict":
        return EvictPage(page_id=page_id, by="system")
    made = _make_levels(thread, page_id, level)
    return MapPage(page_id=page_id, level=level, made=made, by="system")


def perform_act(
    thread: Thread, command: Act, *, actor: str, if_match: int | None = None
) -> OrderReceipt:
    """Perform a command of `build_command`; a command without effect writes nothing.

    Raises StaleError when the thread is not at `if_match` any more, NoRoomError,
    PinnedError, PinBudgetError.
    """
    return _perform_command(thread, command, actor, if_match=if_match)


def delete_page(thread: Thread, page_id: str, *, actor: str) -> OrderReceipt:
    """Delete a page and purge its payloads. Raises DerivedPageError."""
    return _perform_command(thread, DeletePage(page_id=page_id, by="system"), actor)


def flush_tlb(thread: Thread, *, actor: str) -> OrderReceipt:
    """Drop all entries of the TLB."""
    return _perform_command(thread, FlushTlb(by="system"), actor)


def invalidate_tlb(
    thread: Thread,
    *,
    actor: str,
    page_id: str | None = None,
    tier: Tier | None = None,
) -> OrderReceipt:
    """Drop the TLB entry of a page, or the entries of all pages in a tier."""
    command = InvalidateTlb(page_id=page_id, tier=tier, by="system")
    return _perform_command(thread, command, actor)


def clear_prefetch(thread: Thread, *, actor: str) -> OrderReceipt:
    """Forget which pages are read before which tools."""
    return _perform_command(thread, ClearPrefetch(by="system"), actor)


def build_configuration(config: Mapping[str, Any]) -> AmendThread:
    """Build the command that changes paging settings; None restores a default."""
    return AmendThread(config=dict(config))


def configure_paging(
    thread: Thread,
    *,
    actor: str,
    config: Mapping[str, Any],
    if_match: int | None = None,
) -> OrderReceipt:
    """Set paging's settings.

    Raises InvalidError naming the setting, PinBudgetError when pins no longer fit, and
    StaleError as `perform_act` does.
    """
    return _perform_command(
        thread, build_configuration(config), actor, if_match=if_match
    )


def _make_levels(thread: Thread, page_id: str, level: int) -> MadeLevels | None:
    """Make the page's lower levels, if mapping may need levels and none exists."""
    settings = pages.parse_settings(thread)
    entry = pages.find_current_entry(thread, page_id)
    if entry is None or (level == FULL and entry.full.cost <= settings.largest):
        return None
    return envelopes.make_levels(thread, entry, tokenizer=settings.tokenizer)


def _perform_command(
    thread: Thread, command: Command, actor: str, *, if_match: int | None = None
) -> OrderReceipt:
    """Perform a command in the thread."""
    address = Address(project=thread.project_id, name=thread.name)
    order = Order(address=address, command=command, actor=actor, if_match=if_match)
    return journal.perform(order)
