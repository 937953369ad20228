"""Levels of pages, made ahead of need for pages that may soon have to shrink."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from memoryhub import journal
from memoryhub.errors import StaleError, SubjectRestrictedError
from memoryhub.journal import Address, Order, OrderReceipt, texts
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.levels import levels, making
from memoryhub.kernel.paging.page_commands import (
    WriteLevels,
)
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers

ACTOR = "worker:levels"
#: Fewest tokens of a page for which lower levels are worth making.
MIN_TOKENS = 256
#: Pages whose texts are open at once.
CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsResult:
    """Result of making levels for a thread."""

    #: Pages looked at, and pages whose levels were written.
    pages: int = 0
    written: int = 0
    #: The thread's head, unless another process has written meanwhile.
    seq: int
    #: Whether something of the subject was erased meanwhile, which voids the levels.
    void: bool = False


def make_levels(thread: Thread) -> LevelsResult:
    """Make lower levels of mapped pages without any, if the working set is crowded.

    Emits page.compressed for each page for which levels can be made. A repeat emits
    nothing, and neither does a version or text that is gone by then. Linear in the
    texts, which are no more than the thread's budget. Seven queries, and four for each
    64 pages. `thread` comes with its subject. Raises the errors that stop reads or
    writes of the thread.
    """
    state = journal.fold_thread(thread, thread.head_seq).state
    wanted = list_lacking(state)
    receipts = list[OrderReceipt | None]()
    for start in range(0, len(wanted), CHUNK):
        made = _make_levels(thread, state, wanted[start : start + CHUNK])
        receipts += _write_levels(thread, made)
    written = sum(len(each.events) for each in receipts if each)
    return LevelsResult(
        pages=len(wanted),
        written=written,
        seq=state.seq + written,
        void=None in receipts,
    )


def list_lacking(state: ThreadState) -> list[PageEntry]:
    """List mapped pages that need levels, in the order of the context."""
    if state.status != "open" or not state.paging.is_crowded:
        return []
    entries = [frame.entry for frame in state.paging.list_in_context_order()]
    return [entry for entry in entries if _needs_levels(entry)]


def _needs_levels(entry: PageEntry) -> bool:
    """Return whether the page needs levels; a page with one level has all."""
    return (
        entry.full.tokens >= MIN_TOKENS
        and not any(entry.levels[1:])
        and levels.can_produce(entry.modality)
    )


def _make_levels(
    thread: Thread, state: ThreadState, wanted: Sequence[PageEntry]
) -> list[MadeLevels]:
    """Make the levels of these pages; leaves out pages for which none can be made."""
    settings = state.paging.settings
    opened = texts.open_texts(thread, [entry.full.location for entry in wanted])
    made = [
        _make_page_levels(entry, opened[entry.full.location], settings)
        for entry in wanted
        # A fork may still map what its ancestor has deleted.
        if entry.full.location in opened
    ]
    return [each for each in made if each.levels]


def _make_page_levels(
    entry: PageEntry, opened: OpenedPage, settings: PagingSettings
) -> MadeLevels:
    """Make the levels of one page."""
    tokens = entry.full.tokens
    count = tokenizers.build_counter(
        opened, tokens=tokens, tokenizer=settings.tokenizer
    )
    return making.make_levels(opened, version=entry.version, tokens=tokens, count=count)


def _write_levels(
    thread: Thread, made: Sequence[MadeLevels]
) -> list[OrderReceipt | None]:
    """Write the levels; None for a page whose subject's texts changed meanwhile."""
    # Put all orders first, so that they share the writer's transactions.
    waiting = [journal.writer.put(_build_order(thread, each)) for each in made]
    return [_await_receipt(each) for each in waiting]


def _build_order(thread: Thread, made: MadeLevels) -> Order:
    """Build the order that writes a page's levels."""
    return Order(
        address=Address(project=thread.project_id, name=thread.name),
        command=WriteLevels(made=made),
        actor=ACTOR,
        epoch=thread.subject.epoch,
        size=len(made.payload),
    )


def _await_receipt(waiting: Future[OrderReceipt]) -> OrderReceipt | None:
    """Await the receipt; None if the order was refused as stale or restricted."""
    try:
        return waiting.result()
    except (StaleError, SubjectRestrictedError):
        return None
