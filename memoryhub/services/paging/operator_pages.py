"""What operators do to pages, the TLB and the settings of paging.

Ordinary commands, under an actor of their own; none of them writes content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from memoryhub import journal
from memoryhub.journal import Address, Order, Receipt
from memoryhub.kernel.commands import AmendThread, Command, MadeLevels
from memoryhub.kernel.paging.page_commands import (
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


def command_of(thread: Thread, verb: Verb, page_id: str, *, level: int = FULL) -> Act:
    """Return the command of a verb for a page; `level` is that to map it at.

    Levels that mapping may need are made here. `thread` comes with its subject.
    """
    if verb == "pin":
        return PinPage(page_id=page_id, by="system")
    if verb == "unpin":
        return UnpinPage(page_id=page_id, by="system")
    if verb == "evict":
        return EvictPage(page_id=page_id, by="system")
    made = _made(thread, page_id, level)
    return MapPage(page_id=page_id, level=level, made=made, by="system")


def act(
    thread: Thread, command: Act, *, actor: str, if_match: int | None = None
) -> Receipt:
    """Do what `command_of` said; what is so already writes nothing.

    Raises StaleError when the thread is not at `if_match` any more, NoRoomError,
    PinnedError, PinBudgetError.
    """
    return _perform(thread, command, actor, if_match=if_match)


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


def configuring(config: Mapping[str, Any]) -> AmendThread:
    """Return the command that changes paging settings; None is the default again."""
    return AmendThread(config=dict(config))


def configure(
    thread: Thread,
    *,
    actor: str,
    config: Mapping[str, Any],
    if_match: int | None = None,
) -> Receipt:
    """Set paging's settings.

    Raises InvalidError naming the setting, PinBudgetError when pins no longer fit, and
    StaleError as `act` does.
    """
    return _perform(thread, configuring(config), actor, if_match=if_match)


def _made(thread: Thread, page_id: str, level: int) -> MadeLevels | None:
    """The page's lower levels, if they may be needed and none is there."""
    settings = pages.settings_now(thread)
    entry = pages.current_entry(thread, page_id)
    if entry is None or (level == FULL and entry.full.cost <= settings.largest):
        return None
    return envelopes.make_levels(thread, entry, tokenizer=settings.tokenizer)


def _perform(
    thread: Thread, command: Command, actor: str, *, if_match: int | None = None
) -> Receipt:
    address = Address(project=thread.project_id, name=thread.name)
    order = Order(address=address, command=command, actor=actor, if_match=if_match)
    return journal.perform(order)
