"""Page faults: a page fetched back for a model, and why it was not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from memoryhub.errors import (
    FaultBudgetError,
    FaultConfidenceError,
    InvalidError,
    NoRoomError,
    PageErasedError,
    PageUnknownError,
    Refusal,
)
from memoryhub.journal import Receipt
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.levels import tools
from memoryhub.kernel.levels.lines import shown_text
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.levels.tools import Call, Failure, Mistake, SearchCall
from memoryhub.kernel.packing import ranges, selection
from memoryhub.kernel.paging import faults, working_set
from memoryhub.kernel.paging.page_commands import FaultPage, Range
from memoryhub.kernel.state.page_events import FaultRefused, PageFaulted
from memoryhub.kernel.state.pages import FULL, Entry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import envelopes
from memoryhub.queries.turns.envelopes import Envelope
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_searches
from memoryhub.services.paging import pages as writing
from memoryhub.services.paging.pages import Preconditions

_REFUSED = (
    *(PageUnknownError, PageErasedError, FaultConfidenceError, FaultBudgetError),
    NoRoomError,
)


_LEVELS = ("full", "excerpt", "summary", "one line")


class RequestedPart(NamedTuple):
    """A part of FULL that is asked for, in tokens; as many as fit without a limit."""

    offset: int
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """A page that was fetched back, and what that has done."""

    receipt: Receipt
    entry: Entry
    envelope: Envelope
    #: What a model is shown of it.
    text: str
    #: The part that was served; None: all of a level.
    part: Range | None
    promoted: bool
    #: Of the level that was served.
    tokens: int
    evictions: tuple[str, ...]
    faults_left: int
    fault_tokens_left: int

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values, in a fixed key order."""
        return {
            "page": self.envelope.plain(),
            "effects": {
                "promoted_to_working_set": self.promoted,
                "tokens_est": self.tokens,
                "evictions": list(self.evictions),
                "faults_left": self.faults_left,
                "fault_tokens_left": self.fault_tokens_left,
                "offset": self.part.offset if self.part else None,
                "next_offset": self.part.next_offset if self.part else None,
            },
        }

    @property
    def message(self) -> str:
        """As a model is told: a line about it, an empty one, its text as it is.

        Without the text where it stands in the context already.
        """
        served = _LEVELS[self.envelope.level]
        if self.part:
            end = self.part.next_offset
            served = f"tokens from {self.part.offset:,}, "
            served += "to the end" if end is None else f"next_offset {end}"
        tokens = (
            f"{self.tokens:,} tokens" if self.promoted else "in your context already"
        )
        about = (self.entry.page_id, self.entry.type, served, tokens)
        head = f"page {' · '.join(about)} · {self.faults_left} faults left"
        return f"{head}\n\n{self.text}" if self.promoted else head


async def fault(
    *,
    agent: Agent,
    thread: str,
    command: FaultPage,
    part: RequestedPart | None = None,
    preconditions: Preconditions | None = None,
) -> Faulted:
    """Fetch a page back at a level, or at the nearest more faithful one there can be.

    Or a `part` of it at FULL; InvalidError for one that begins behind its end.

    Emits page.faulted, page.referenced when it is mapped so already, or fault.refused.
    Raises PageUnknownError, PageErasedError, FaultConfidenceError and FaultBudgetError,
    which says what is left, or NoRoomError, which says what fits the next request;
    after any of them nothing was charged.
    """
    page, level = command.page_id, command.level
    # FULL is there already, and nothing lower is mapped in the place of what was asked.
    if level and names.valid(page):
        made = await read(
            writing.prepared, agent, thread, page, level=level, whole=True
        )
        command = replace(command, made=made)
    if part is not None and names.valid(page):
        found = await read(_cut, agent, thread, page, part)
        command = replace(command, range=found)
    try:
        receipt = await writing.apply(
            agent, thread, command, preconditions=preconditions
        )
    except _REFUSED as refusal:
        raise await read(_explained, agent, thread, refusal, command) from None
    for event in receipt.all(FaultRefused):
        refused = faults.refused(event.refusal)
        explained = await read(_explained, agent, thread, refused, command)
        explained.journaled = True
        raise explained
    return await read(_faulted, agent, receipt, command)


async def call(
    *, agent: Agent, thread: str, sent: Any, preconditions: Preconditions | None = None
) -> dict[str, Any]:
    """Do what a model's call asks for, and answer with the tool's message.

    What the model got wrong, or is not given, is told to it there.
    """
    parsed = tools.parse_call(sent)
    if isinstance(parsed, Mistake):
        # A thread that is not there is no mistake of the model's.
        await read(threads.get_unrestricted, agent.project, thread, bound=agent.bound)
        content: str = parsed.sentence
    elif isinstance(parsed, SearchCall):
        content = await page_searches.search(agent, thread, parsed)
    else:
        content = await _called(agent, thread, parsed, preconditions)
    return tools.answer(sent, content)


async def _called(
    agent: Agent, thread: str, parsed: Call, preconditions: Preconditions | None
) -> str:
    command = FaultPage(
        page_id=parsed.page_id,
        level=parsed.level,
        by="model",
        call_id=parsed.call_id or None,
    )
    part = None if parsed.offset is None else RequestedPart(parsed.offset, parsed.limit)
    try:
        found = await fault(
            agent=agent,
            thread=thread,
            command=command,
            part=part,
            preconditions=preconditions,
        )
    except InvalidError as refusal:
        return Failure(f"{refusal.loc} takes {refusal.allowed}.")
    except _REFUSED as refusal:
        return Failure(refusal.sentence)
    return found.message


def _cut(agent: Agent, thread: str, page_id: str, part: RequestedPart) -> Range | None:
    """The part, or as much of it as fits; None for a page that there is not."""
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    state = states.state_of(row)
    try:
        entry = pages.find_entry(state, page_id)
    except (PageUnknownError, PageErasedError):
        return None
    found = None if part.limit else _longest(row, state, entry, part.offset)
    if found is None:
        # Whether there is room for it is the command's to say.
        opened = envelopes.open_level(row, entry, FULL)
        found = ranges.cut(
            opened,
            version=entry.version,
            offset=part.offset,
            limit=part.limit or tools.LEAST,
            count=_count(state, entry, opened),
        )
    if found.start == found.end:
        raise InvalidError(
            loc="offset", allowed=f"0 to {entry.full.tokens - 1}, where the page ends"
        )
    return found


def _longest(
    row: Thread, state: ThreadState, entry: Entry, offset: int
) -> Range | None:
    """The longest part from there that would be delivered; None if there is none."""
    opened = envelopes.open_level(row, entry, FULL)
    return ranges.fitted(
        opened,
        version=entry.version,
        offset=offset,
        limit=selection.policies_of(state.paging).upgrade_budget_tokens,
        room=faults.part_room(state, entry.page_id),
        count=_count(state, entry, opened),
    )


def _count(state: ThreadState, entry: Entry, opened: Opened) -> Count:
    return tokenizers.deriving(
        opened, tokens=entry.full.tokens, tokenizer=state.paging.settings.tokenizer
    )


def _faulted(agent: Agent, receipt: Receipt, command: FaultPage) -> Faulted:
    thread, state = writing.state_after(receipt)
    # Whoever fetches a page is handed its text.
    uses.read(agent.prefix, state.subject)
    entry = pages.find_entry(state, command.page_id)
    events = receipt.all(PageFaulted)
    frame = state.paging.frames.get(entry.page_id)
    # What the turn has brought along stands there whole, mapped or not.
    shown = FULL if frame is None else frame.level
    level = events[0].level if events else shown
    tier = state.paging.tier(entry.page_id) or entry.home
    left = selection.policies_of(state.paging)
    source = events[0].tier_before if events else tier
    envelope = envelopes.get_envelope(
        thread, entry, level=level, tier=tier, source=source
    )
    text = shown_text(envelopes.open_level(thread, entry, level), level=level)
    if command.range is not None:
        text = text[command.range.start : command.range.end]
        envelope = envelope.of_part(text)
    return Faulted(
        receipt=receipt,
        entry=entry,
        envelope=envelope,
        text=text,
        part=command.range,
        promoted=bool(events),
        tokens=events[0].tokens if events else entry.at(level).tokens,
        evictions=tuple(writing.evictions(receipt)),
        faults_left=left.faults_left,
        fault_tokens_left=left.upgrade_budget_tokens,
    )


def _explained(
    agent: Agent, thread: str, refusal: Refusal, command: FaultPage
) -> Refusal:
    """The refusal with what is left, and which levels there is room for."""
    if not isinstance(refusal, FaultBudgetError | NoRoomError):
        return refusal
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    state = states.state_of(row)
    entry = pages.find_entry(state, command.page_id)
    made = command.made or envelopes.make_levels(
        row, entry, tokenizer=state.paging.settings.tokenizer
    )
    entry = working_set.with_made(entry, made)
    left = selection.policies_of(state.paging)
    tokens = entry.at(entry.at_most(command.level)).tokens
    cheaper = _cheaper(state, entry, tokens) if left.faults_left else []
    if isinstance(refusal, NoRoomError):
        offset = command.range.offset if command.range else 0
        part = _longest(row, state, entry, offset)
        return NoRoomError(
            tokens=command.range.tokens if command.range else tokens,
            fits_level=cheaper[-1] if cheaper else None,
            fits_tokens=part.tokens if part else None,
        )
    return FaultBudgetError(
        faults_left=left.faults_left,
        fault_tokens_left=left.upgrade_budget_tokens,
        tokens=tokens,
        cheaper_levels=tuple(cheaper),
    )


def _cheaper(state: ThreadState, entry: Entry, tokens: int) -> list[int]:
    """Levels of less tokens that would be delivered, cheapest first."""
    left = selection.policies_of(state.paging).upgrade_budget_tokens
    room = faults.deliverable(state, entry.page_id)
    levels = faults.cheaper_levels(entry, tokens_left=left)
    return [
        level
        for level in levels
        if entry.at(level).tokens < tokens and faults.weigh(state, entry, level) <= room
    ]
