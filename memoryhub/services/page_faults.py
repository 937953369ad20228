"""Page faults: a page fetched back for a model, and why it was not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from memoryhub.errors import (
    FaultBudgetError,
    FaultConfidenceError,
    PageErasedError,
    PageUnknownError,
    Refusal,
)
from memoryhub.journal import Receipt
from memoryhub.journal.uses import uses
from memoryhub.kernel import faults, names, tools, wanting, working_set
from memoryhub.kernel.page_commands import FaultPage
from memoryhub.kernel.page_events import FaultRefused, PageFaulted
from memoryhub.kernel.pages import Entry
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.tools import Call, Mistake
from memoryhub.queries import envelopes, pages, states, threads
from memoryhub.queries.envelopes import Envelope
from memoryhub.queries.readers import read
from memoryhub.services import pages as writing
from memoryhub.services.api_keys import Agent
from memoryhub.services.pages import Terms

_REFUSED = (PageUnknownError, PageErasedError, FaultConfidenceError, FaultBudgetError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """A page that was fetched back, and what that has done."""

    receipt: Receipt
    envelope: Envelope
    promoted: bool
    #: Of the level that was served.
    tokens: int
    evictions: tuple[str, ...]
    faults_left: int
    fault_tokens_left: int

    def plain(self) -> dict[str, Any]:
        """As JSON has it, in a fixed key order."""
        return {
            "page": self.envelope.plain(),
            "effects": {
                "promoted_to_working_set": self.promoted,
                "tokens_est": self.tokens,
                "evictions": list(self.evictions),
                "faults_left": self.faults_left,
                "fault_tokens_left": self.fault_tokens_left,
            },
        }


async def fault(
    *, agent: Agent, thread: str, command: FaultPage, terms: Terms | None = None
) -> Faulted:
    """Fetch a page back at a level, or at the nearest more faithful one there can be.

    Emits page.faulted, page.referenced when it is mapped so already, or fault.refused.
    Raises PageUnknownError, PageErasedError, FaultConfidenceError and FaultBudgetError,
    which says what is left; after any of them nothing was charged.
    """
    # FULL is there already, and nothing lower is mapped in the place of what was asked.
    if command.level and names.valid(command.page_id):
        made = await read(
            writing.prepared,
            agent,
            thread,
            command.page_id,
            level=command.level,
            whole=True,
        )
        command = replace(command, made=made)
    try:
        receipt = await writing.apply(agent, thread, command, terms=terms)
    except _REFUSED as refusal:
        raise await read(_explained, agent, thread, refusal, command) from None
    for event in receipt.all(FaultRefused):
        told = faults.refused(event.refusal)
        raise await read(_explained, agent, thread, told, command)
    return await read(_faulted, agent, receipt, command)


async def call(
    *, agent: Agent, thread: str, sent: Any, terms: Terms | None = None
) -> dict[str, str]:
    """Do what a model's call asks for, and answer with the tool's message.

    What the model got wrong, or is not given, is told to it there.
    """
    parsed = tools.parse_call(sent)
    if isinstance(parsed, Mistake):
        # A thread that is not there is no mistake of the model's.
        await read(_require_thread, agent, thread)
        return tools.tool_message(parsed.call_id, parsed.name, parsed.content)
    content = await _called(agent, thread, parsed, terms)
    return tools.tool_message(parsed.call_id, parsed.name, content)


def _require_thread(agent: Agent, thread: str) -> None:
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    threads.require_unrestricted(row)


async def _called(
    agent: Agent, thread: str, asked: Call, terms: Terms | None
) -> dict[str, Any]:
    command = FaultPage(page_id=asked.page_id, level=asked.level, by="model")
    try:
        found = await fault(agent=agent, thread=thread, command=command, terms=terms)
    except _REFUSED as refusal:
        return {
            "error": refusal.code,
            "page_id": asked.page_id,
            "detail": refusal.sentence,
        }
    return found.plain()


def _faulted(agent: Agent, receipt: Receipt, command: FaultPage) -> Faulted:
    thread, state = writing.state_after(receipt)
    # Whoever fetches a page is handed its text.
    uses.read(agent.prefix, state.subject)
    entry = pages.find_entry(state, command.page_id)
    told = receipt.all(PageFaulted)
    level = told[0].level if told else state.paging.frames[entry.page_id].level
    tier = state.paging.tier(entry.page_id) or entry.home
    left = wanting.policies_of(state.paging)
    envelope = envelopes.get_envelope(
        thread,
        entry,
        level=level,
        tier=tier,
        source=told[0].tier_before if told else tier,
    )
    return Faulted(
        receipt=receipt,
        envelope=envelope,
        promoted=bool(told) and told[0].promoted,
        tokens=entry.at(level).tokens,
        evictions=tuple(writing.evictions(receipt)),
        faults_left=left.faults_left,
        fault_tokens_left=left.upgrade_budget_tokens,
    )


def _explained(
    agent: Agent, thread: str, refusal: Refusal, command: FaultPage
) -> Refusal:
    """The refusal with what is left, and which levels that would pay for."""
    if not isinstance(refusal, FaultBudgetError):
        return refusal
    row = threads.get_thread(agent.project, thread, bound=agent.bound)
    state = states.state_of(row)
    entry = pages.find_entry(state, command.page_id)
    made = command.made or envelopes.make_levels(
        row, entry, tokenizer=state.paging.settings.tokenizer
    )
    entry = working_set.with_made(entry, made)
    left = wanting.policies_of(state.paging)
    tokens = entry.at(entry.at_most(command.level)).tokens
    cheaper = _cheaper(state, entry, tokens) if left.faults_left else []
    return FaultBudgetError(
        faults_left=left.faults_left,
        fault_tokens_left=left.upgrade_budget_tokens,
        tokens=tokens,
        cheaper_levels=tuple(cheaper),
    )


def _cheaper(state: ThreadState, entry: Entry, tokens: int) -> list[int]:
    left = wanting.policies_of(state.paging).upgrade_budget_tokens
    levels = faults.cheaper_levels(entry, tokens_left=left)
    return [level for level in levels if entry.at(level).tokens < tokens]
