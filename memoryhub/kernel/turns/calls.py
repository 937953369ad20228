"""Calls of an agent's own tools, recorded when they have ended. Pure.

The newest user message begins an exchange, and ends the bindings of earlier calls.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memoryhub.errors import PinBudgetError, TokensRequiredError
from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.guards.calls import (
    build_call_key,
    classify_tool,
    normalize_name,
    read_result,
)
from memoryhub.kernel.paging import page_table
from memoryhub.kernel.paging.page_commands import NewPage
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.calls import (
    MOST_CALLS,
    CallLog,
    CallOutcome,
    GuardReason,
    RecordedCall,
    Verdict,
    list_since,
)
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.tool_events import CallRecorded
from memoryhub.kernel.text import strict_json

#: Outcomes whose results are bound.
_BOUND: frozenset[CallOutcome] = frozenset({"success", "partial"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProcedure:
    """The page of what the calls of a tool have taught, the new call included."""

    page: NewPage
    #: Clocks of the earlier calls and messages that the page quotes.
    sources: tuple[int, ...]
    #: Whether the new call changed a pattern.
    is_news: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCall(Command):
    tool: str
    arguments: Any
    outcome: CallOutcome
    #: Whether there is a result; null is one.
    has_result: bool = False
    result: Any = None
    error: str | None = None
    duration_ms: int | None = None
    verdict: Verdict | None = None
    reason: GuardReason | None = None
    procedure: NewProcedure | None = None

    def build_payload(self) -> bytes:
        """Build the JSON text to seal."""
        sent = {"tool": self.tool, "arguments": self.arguments}
        if self.has_result:
            sent["result"] = self.result
        if self.error is not None:
            sent["error"] = self.error
        return strict_json.dump_stored(sent)


def list_exchange_calls(state: ThreadState) -> CallLog:
    """List the calls since the newest message of the user, oldest first."""
    user = state.paging.last_user
    return list_since(state.calls, user.seq) if user else state.calls


def decide_record_call(
    decision: Decision, command: RecordCall, pages: PageTable
) -> None:
    """Record a call. Emits call.recorded, and the page of what the calls taught."""
    payload = command.build_payload()
    binding = value_type = None
    if command.has_result:
        value_type, _ = read_result(command.result)
        if command.outcome in _BOUND:
            held = list_exchange_calls(decision.state)
            binding = max((call.binding for call in held), default=0) + 1
    name = normalize_name(command.tool)
    event = CallRecorded(
        turn=decision.turn,
        tool=pages.digest(name),
        digest=pages.digest(build_call_key(command.tool, command.arguments)),
        kind=classify_tool(name),
        outcome=command.outcome,
        value_type=value_type,
        binding=binding,
        duration_ms=command.duration_ms,
        verdict=command.verdict,
        reason=command.reason,
        bytes=len(payload),
    )
    decision.emit(event, payload)
    if command.procedure is not None:
        _write_procedure(decision, command.procedure, pages)


def _write_procedure(decision: Decision, made: NewProcedure, pages: PageTable) -> None:
    """Write the page of a tool if a pattern changed, or if there is no such page yet.

    The page waits for a later call if its pin has no room, or if this process lacks the
    thread's tokenizer.
    """
    page_id = made.page.page_id
    if pages.is_deleted(page_id):
        return
    if not made.is_news and pages.find_entry(page_id) is not None:
        return
    state = decision.state
    places = [state.locate_event(clock) for clock in (*made.sources, state.clock)]
    sources = [Location(thread, seq, FULL) for thread, seq in places]
    with suppress(PinBudgetError, TokensRequiredError):
        decision.paging.settings.require_tokens(made.page.counted_by)
        page_table.write_derived_page(decision, made.page, sources, pages)


def apply_call_recorded(state: ThreadState, event: CallRecorded) -> ThreadState:
    """Add a call to the calls that count; a blocked call was never made."""
    if event.verdict == "block":
        return state
    call = RecordedCall(
        clock=state.clock + 1,
        turn=event.turn,
        tool=event.tool,
        digest=event.digest,
        kind=event.kind,
        outcome=event.outcome,
        value_type=event.value_type,
        binding=event.binding or 0,
        bytes=event.bytes,
        goal=state.paging.last_user.seq if state.paging.last_user else 0,
        duration_ms=event.duration_ms,
    )
    return state._replace(calls=(*state.calls, call)[-MOST_CALLS:])


PART = KernelPart(
    commands={RecordCall: decide_record_call},
    events={CallRecorded: apply_call_recorded},
)
