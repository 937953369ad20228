"""Levels: made ahead of need for pages that may soon have to make room."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from memoryhub import journal
from memoryhub.errors import StaleError, SubjectRestrictedError
from memoryhub.journal import Address, Order, Receipt
from memoryhub.journal.writing import texts
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.levels import levels, making
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.paging.page_commands import (
    WriteLevels,
)
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers

ACTOR = "worker:levels"
#: Pages of fewer tokens save too little by being lowered.
LEAST = 256
#: Pages whose texts are open at once.
CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a look at a thread has led to."""

    #: Pages that were looked at, and those that have levels now.
    pages: int = 0
    written: int = 0
    #: Where the thread's head is if nobody else has written meanwhile.
    seq: int
    #: Something of its subject was erased meanwhile: what was made of it is void.
    void: bool = False


def make(thread: Thread) -> Made:
    """Make the lower levels of mapped pages that have none, if the set is crowded.

    Emits page.compressed for each page that any can be made of; a second look emits
    nothing, and neither does a version or text that is gone by then. Linear in the
    texts, which are no more than the thread's budget. Seven queries, and four for each
    64 pages. `thread` comes with its subject. Raises what keeps the thread from being
    read or written to.
    """
    state = journal.state_at(thread, thread.head_seq).state
    wanted = lacking(state)
    receipts = list[Receipt | None]()
    for start in range(0, len(wanted), CHUNK):
        made = _made(thread, state, wanted[start : start + CHUNK])
        receipts += _written(thread, made)
    written = sum(len(each.events) for each in receipts if each)
    return Made(
        pages=len(wanted),
        written=written,
        seq=state.seq + written,
        void=None in receipts,
    )


def lacking(state: ThreadState) -> list[Entry]:
    """List mapped pages of which levels are to be made, in the order of the context."""
    if state.status != "open" or not state.paging.crowded:
        return []
    entries = [frame.entry for frame in state.paging.in_order()]
    return [entry for entry in entries if _lacks(entry)]


def _lacks(entry: Entry) -> bool:
    """A producer makes all it can at once: who has one level needs no others."""
    return (
        entry.full.tokens >= LEAST
        and not any(entry.levels[1:])
        and levels.producible(entry.modality)
    )


def _made(
    thread: Thread, state: ThreadState, wanted: Sequence[Entry]
) -> list[MadeLevels]:
    """Levels of these pages, without those of which none can be made."""
    settings = state.paging.settings
    opened = texts.opened(thread, [entry.full.location for entry in wanted])
    made = [
        _made_of(entry, opened[entry.full.location], settings)
        for entry in wanted
        # A fork may still map what its ancestor has deleted.
        if entry.full.location in opened
    ]
    return [each for each in made if each.levels]


def _made_of(entry: Entry, opened: Opened, settings: Settings) -> MadeLevels:
    tokens = entry.full.tokens
    count = tokenizers.deriving(opened, tokens=tokens, tokenizer=settings.tokenizer)
    return making.made_of(opened, version=entry.version, tokens=tokens, count=count)


def _written(thread: Thread, made: Sequence[MadeLevels]) -> list[Receipt | None]:
    """Receipts in order; None where the subject's texts are not as they were read."""
    # All at once, so that they share the writer's transactions.
    waiting = [journal.writer.put(_order(thread, each)) for each in made]
    return [_outcome(each) for each in waiting]


def _order(thread: Thread, made: MadeLevels) -> Order:
    return Order(
        address=Address(project=thread.project_id, name=thread.name),
        command=WriteLevels(made=made),
        actor=ACTOR,
        epoch=thread.subject.epoch,
        size=len(made.payload),
    )


def _outcome(waiting: Future[Receipt]) -> Receipt | None:
    try:
        return waiting.result()
    except (StaleError, SubjectRestrictedError):
        return None
