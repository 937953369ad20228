"""Page faults: a page fetched back for a model, or the reason for a refusal."""

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
    PartsUnseenError,
    Refusal,
)
from memoryhub.journal import OrderReceipt
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.packing import ranges, selection
from memoryhub.kernel.paging import faults, working_set
from memoryhub.kernel.paging.page_commands import FaultPage, PageRange
from memoryhub.kernel.state.page_events import FaultRefused, PageFaulted
from memoryhub.kernel.state.pages import FULL, PageEntry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.kernel.tools import tools
from memoryhub.kernel.tools.tools import Failure, FaultCall, Mistake, SearchCall
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
    """Requested part of FULL in tokens; without a limit as many tokens as fit."""

    offset: int
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """Page that was fetched back, with the effects of the fault."""

    receipt: OrderReceipt
    entry: PageEntry
    envelope: Envelope
    #: Text shown to the model.
    text: str
    #: The part that was served; None: all of a level.
    part: PageRange | None
    promoted: bool
    #: Tokens of the level that was served.
    tokens: int
    evictions: tuple[str, ...]
    faults_left: int
    fault_tokens_left: int

    def to_json(self) -> dict[str, Any]:
        """Convert the result to JSON values, in a fixed key order."""
        return {
            "page": self.envelope.to_dict(),
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
        """Message for a model: a line about the page, an empty line, the page's text.

        The text is left out where the context contains the page already.
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


async def fault_page(
    *,
    agent: Agent,
    thread: str,
    command: FaultPage,
    part: RequestedPart | None = None,
    preconditions: Preconditions | None = None,
) -> FetchedPage:
    """Fetch a page back at a level, or at the nearest more faithful level that exists.

    With `part`, fetch that part of FULL; InvalidError for a part that begins after the
    page's end.

    Emits page.faulted, page.referenced when the page is mapped at that level already,
    or fault.refused. Raises PageUnknownError, PageErasedError, FaultConfidenceError and
    FaultBudgetError, which says what is left, or NoRoomError, which says what fits the
    next request; after any of these errors nothing was charged.
    """
    page, level = command.page_id, command.level
    # FULL exists already, and no level below the requested one is mapped.
    if level and names.is_valid(page):
        made = await read(
            writing.make_missing_levels, agent, thread, page, level=level, whole=True
        )
        command = replace(command, made=made)
    if part is not None and names.is_valid(page):
        found = await read(_find_part, agent, thread, page, part)
        command = replace(command, range=found)
    try:
        receipt = await writing.submit_command(
            agent, thread, command, preconditions=preconditions
        )
    except _REFUSED as refusal:
        raise await read(_explain_refusal, agent, thread, refusal, command) from None
    for event in receipt.list_events(FaultRefused):
        refused = faults.build_refusal(event.refusal)
        explained = await read(_explain_refusal, agent, thread, refused, command)
        explained.journaled = True
        raise explained
    return await read(_build_fetched, agent, receipt, command)


async def answer_call(
    *, agent: Agent, thread: str, sent: Any, preconditions: Preconditions | None = None
) -> dict[str, Any]:
    """Run a model's call of a paging tool, and return the tool's message.

    The message tells the model about its mistakes and about refusals.
    """
    parsed = tools.parse_call(sent)
    if isinstance(parsed, Mistake):
        # An unknown thread is no mistake of the model's.
        await read(threads.get_unrestricted, agent.project, thread, bound=agent.bound)
        content: str = parsed.sentence
    elif isinstance(parsed, SearchCall):
        content = await page_searches.search_for_model(agent, thread, parsed)
    else:
        content = await _run_fetch_call(agent, thread, parsed, preconditions)
    return tools.answer(sent, content)


async def _run_fetch_call(
    agent: Agent, thread: str, parsed: FaultCall, preconditions: Preconditions | None
) -> str:
    """Fault the page of a call, and return the text for the model."""
    command = FaultPage(
        page_id=parsed.page_id,
        level=parsed.level,
        by="model",
        call_id=parsed.call_id or None,
    )
    part = None if parsed.offset is None else RequestedPart(parsed.offset, parsed.limit)
    try:
        found = await fault_page(
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


def _find_part(
    agent: Agent, thread: str, page_id: str, part: RequestedPart
) -> PageRange | None:
    """Find the requested part, or as much as fits; None for an unknown page."""
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    state = states.load_state(row)
    try:
        entry = pages.find_entry(state, page_id)
    except (PageUnknownError, PageErasedError):
        return None
    found = None if part.limit else _find_longest_part(row, state, entry, part.offset)
    if found is None:
        # The command itself checks whether there is room.
        opened = envelopes.open_level(row, entry, FULL)
        found = ranges.cut_range(
            opened,
            version=entry.version,
            offset=part.offset,
            limit=part.limit or tools.LEAST,
            count=_build_counter(state, entry, opened),
        )
    if found.start == found.end:
        raise InvalidError(
            loc="offset", allowed=f"0 to {entry.full.tokens - 1}, where the page ends"
        )
    return found


def _find_longest_part(
    row: Thread, state: ThreadState, entry: PageEntry, offset: int
) -> PageRange | None:
    """Find the longest deliverable part from an offset; None if there is none."""
    opened = envelopes.open_level(row, entry, FULL)
    return ranges.fit_range(
        opened,
        version=entry.version,
        offset=offset,
        limit=selection.build_policies(state.paging).upgrade_budget_tokens,
        room=faults.compute_part_room(state, entry.page_id),
        count=_build_counter(state, entry, opened),
    )


def _build_counter(state: ThreadState, entry: PageEntry, opened: OpenedPage) -> Count:
    """Build the token counter of a page."""
    return tokenizers.build_counter(
        opened, tokens=entry.full.tokens, tokenizer=state.paging.settings.tokenizer
    )


def _build_fetched(
    agent: Agent, receipt: OrderReceipt, command: FaultPage
) -> FetchedPage:
    """Build the result of a fault; records the read for the subject's receipts."""
    thread, state = writing.get_thread_after(receipt)
    # A fetch hands the text to the agent, so it counts as a read.
    uses.count_read(agent.prefix, state.subject)
    entry = pages.find_entry(state, command.page_id)
    events = receipt.list_events(PageFaulted)
    frame = state.paging.frames.get(entry.page_id)
    # A page that the turn recalled stands there in full, mapped or not.
    shown = FULL if frame is None else frame.level
    level = events[0].level if events else shown
    tier = state.paging.find_tier(entry.page_id) or entry.home
    left = selection.build_policies(state.paging)
    source = events[0].tier_before if events else tier
    envelope = envelopes.get_envelope(
        thread, entry, level=level, tier=tier, source=source
    )
    text = render_shown_text(envelopes.open_level(thread, entry, level), level=level)
    if command.range is not None:
        text = text[command.range.start : command.range.end]
        envelope = envelope.replace_text(text)
    return FetchedPage(
        receipt=receipt,
        entry=entry,
        envelope=envelope,
        text=text,
        part=command.range,
        promoted=bool(events),
        tokens=events[0].tokens if events else entry.require_level(level).tokens,
        evictions=tuple(writing.list_evicted(receipt)),
        faults_left=left.faults_left,
        fault_tokens_left=left.upgrade_budget_tokens,
    )


def _explain_refusal(
    agent: Agent, thread: str, refusal: Refusal, command: FaultPage
) -> Refusal:
    """Add to a refusal the remaining budget and the levels that would fit."""
    if not isinstance(refusal, FaultBudgetError | NoRoomError):
        return refusal
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    state = states.load_state(row)
    entry = pages.find_entry(state, command.page_id)
    made = command.made or envelopes.make_levels(
        row, entry, tokenizer=state.paging.settings.tokenizer
    )
    entry = working_set.add_made_levels(entry, made)
    left = selection.build_policies(state.paging)
    tokens = entry.require_level(entry.pick_level(command.level)).tokens
    cheaper = _list_cheaper_levels(state, entry, tokens) if left.faults_left else []
    if isinstance(refusal, NoRoomError):
        offset = command.range.offset if command.range else 0
        part = _find_longest_part(row, state, entry, offset)
        if command.range and not part and faults.has_unseen_parts(state, entry.page_id):
            return PartsUnseenError(tokens=command.range.tokens)
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


def _list_cheaper_levels(
    state: ThreadState, entry: PageEntry, tokens: int
) -> list[int]:
    """List the levels of fewer tokens that could be delivered, cheapest first."""
    left = selection.build_policies(state.paging).upgrade_budget_tokens
    room = faults.compute_deliverable(state, entry.page_id)
    levels = faults.list_cheaper_levels(entry, tokens_left=left)
    return [
        level
        for level in levels
        if entry.require_level(level).tokens < tokens
        and faults.weigh(state, entry, level) <= room
    ]
