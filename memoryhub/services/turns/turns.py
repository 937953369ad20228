"""Turns, one model call each: a turn begins, and its request is packed and recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memoryhub import journal
from memoryhub.errors import (
    BudgetTooSmallError,
    NoRoomError,
    NotRecordedError,
    ObservationsWantedError,
)
from memoryhub.journal import KeyedRequest, Order, OrderReceipt
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.packing.cuts import TextCut
from memoryhub.kernel.packing.packing import Packed
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.paging.page_commands import BeginTurn, RecordContext, SetTools
from memoryhub.kernel.state.page_events import By, TurnBegan
from memoryhub.kernel.state.paging_config import Mode
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import contexts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import extraction
from memoryhub.services.threads import counting

#: Attempts to begin a turn with observations, while their sources are being erased;
#: then the turn begins without.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """Input of a model call: new slots, mode, budget and tools."""

    slots: Sequence[NewSlot] = ()
    mode: Mode | None = None
    #: None: the turn continues when no user slot came since the turn before.
    continues: bool | None = None
    #: A smaller budget for this request only.
    token_budget: int | None = None
    #: The agent's tools from now on; None leaves them unchanged.
    tools: SetTools | None = None
    by: By = "tool"

    @property
    def command(self) -> BeginTurn:
        """The command that begins the turn."""
        return BeginTurn(
            slots=tuple(self.slots),
            tools=self.tools,
            mode=self.mode,
            continues=self.continues,
            observed=None,
            by=self.by,
        )

    @property
    def size(self) -> int:
        """Bytes that wait in the queue with the turn."""
        tools = len(self.tools.definitions) if self.tools else 0
        return tools + sum(len(slot.content) for slot in self.slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunTurn:
    """A turn and its request."""

    receipt: OrderReceipt
    turn: int
    seq: int
    request: bytes
    sha256: str
    tokens: int
    #: Tokenizer that counted the tokens.
    tokenizer: str
    #: Tokens for recalled content: what the thread's setting allows, and what was used.
    recall_asked: int | None = None
    recall_given: int = 0
    included: tuple[str, ...] = ()
    cut: tuple[TextCut, ...] = ()
    omitted: tuple[str, ...] = ()

    @property
    def over_budget(self) -> bool:
        """Whether the turn began with more than the budget.

        Messages of an observed thread that no observation covers are left out then.
        """
        return self.receipt.get_event(TurnBegan).over_budget


async def begin_turn(
    *,
    agent: Agent,
    thread: str,
    new: NewTurn,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> BegunTurn:
    """Append the slots, begin a turn, pack its request and record the request's parts.

    Emits slot.appended each, turn.began, page events, then turn.packed in a second
    transaction. A repeat with the same Idempotency-Key returns the same turn, and packs
    its request if the process died in between. Raises as `slots.append` does, and
    BudgetTooSmallError when not even the newest message fits into the request, which
    is then not packed; the turn has begun.
    """
    carried = await read(blocks.list_carried, agent.project, thread, bound=agent.bound)
    command = dataclasses.replace(new.command, blocks=carried)
    order = Order(
        address=agent.address(thread, birth=agent.build_birth()),
        command=command,
        actor=agent.actor,
        if_match=if_match,
        request=request,
        size=new.size,
    )
    receipt = await _submit_turn(agent, thread, order, command)
    turn = receipt.get_event(TurnBegan)
    if receipt.replayed:
        begun = await read(_find_recorded, agent, receipt, turn.n)
        if begun is not None:
            return begun
    options = _build_options(
        receipt, turn, token_budget=new.token_budget, blocks=carried
    )
    return await _pack_and_record(agent, thread, receipt, options)


async def _submit_turn(
    agent: Agent, thread: str, order: Order, command: BeginTurn
) -> OrderReceipt:
    """Submit the turn, with observations where its thread needs some now."""
    where = (agent.project, thread, agent.bound)
    for _ in range(_ATTEMPTS):
        try:
            return await counting.submit(
                order, partial(counting.recount_slots, command)
            )
        except (NoRoomError, ObservationsWantedError) as refusal:
            behind = isinstance(refusal, ObservationsWantedError)
            relieved = await extraction.relieve_log(*where, behind=behind)
            if not behind:
                if not relieved:
                    raise
                continue
            command = await read(extraction.add_observations, *where, command)
            order = dataclasses.replace(order, command=command)
    command = dataclasses.replace(command, observed=(), reflected=None)
    order = dataclasses.replace(order, command=command)
    return await counting.submit(order, partial(counting.recount_slots, command))


def _build_options(
    receipt: OrderReceipt, turn: TurnBegan, **more: Any
) -> PackingOptions:
    """Build the packing options of a turn."""
    name = names.remove_subject(receipt.name, receipt.subject)
    return PackingOptions(
        name=name, turn=turn.n, mode=turn.mode, now=clock.now(), **more
    )


async def _pack_and_record(
    agent: Agent, thread: str, receipt: OrderReceipt, options: PackingOptions
) -> BegunTurn:
    """Pack the request, record it, and return the turn. Raises BudgetTooSmallError."""
    try:
        row, packed, prefix = await read(pack_request, receipt, options)
    except TooSmallError as refusal:
        least = await read(refusal.find_least_budget)
        raise BudgetTooSmallError(least_tokens=least, turn=options.turn) from None
    order = Order(
        address=agent.address(thread),
        command=build_record(
            packed, turn=options.turn, as_of_seq=receipt.seq, prefix=prefix
        ),
        actor=agent.actor,
    )
    kept = await journal.submit(order)
    if not kept.events:
        # A concurrent repeat was faster: its record is the request.
        begun = await read(_find_recorded, agent, receipt, options.turn)
        assert begun is not None
        return begun
    assert kept.state is not None
    contexts.cache_request(row, options.turn, packed)
    uses.count_read(agent.prefix, kept.state.subject)
    return BegunTurn(
        receipt=receipt,
        turn=options.turn,
        seq=kept.seq,
        request=packed.request,
        sha256=packed.sha256,
        tokens=packed.tokens,
        tokenizer=packed.record.tokenizer,
        recall_asked=packed.record.recall_asked,
        recall_given=packed.record.recall_given,
        included=packed.included,
        cut=packed.cut,
        omitted=packed.omitted,
    )


def pack_request(
    receipt: OrderReceipt, options: PackingOptions
) -> tuple[Thread, Packed, int | None]:
    """Pack the request of a thread as of a receipt.

    Returns the thread, the request, and the number of tokens shared with the request
    before. Raises packing.TooSmallError.
    """
    row = Thread.objects.select_related("subject").get(id=receipt.thread)
    state = receipt.state or _get_state_at(row, receipt.seq)
    before = contexts.find_previous(row, options.turn)
    packed = contexts.pack_request(row, state, options, before=before)
    return (
        row,
        packed,
        contexts.count_prefix_tokens(row, options.turn, packed, before=before),
    )


def build_record(
    packed: Packed,
    *,
    turn: int,
    as_of_seq: int,
    prefix: int | None,
    simulated: bool = False,
) -> RecordContext:
    """Build the command that stores the parts of a request by reference."""
    return RecordContext(
        turn=turn,
        as_of_seq=as_of_seq,
        record=packed.record,
        sha256=packed.sha256,
        prefix_tokens=prefix,
        simulated=simulated,
    )


def _get_state_at(thread: Thread, seq: int) -> ThreadState:
    return journal.fold_thread(thread, seq).state


def _find_recorded(agent: Agent, receipt: OrderReceipt, turn: int) -> BegunTurn | None:
    """Rebuild a turn that was returned before; None if it was never packed."""
    row = Thread.objects.select_related("subject").get(id=receipt.thread)
    try:
        found = contexts.get_recorded_turn(row, turn)
    except NotRecordedError:
        return None
    whole = contexts.reassemble_request(row, found)
    fate = contexts.list_fates(row, found)
    # Returning a turn's request to an agent counts as a read.
    uses.count_read(agent.prefix, row.subject_id)
    return BegunTurn(
        receipt=receipt,
        turn=turn,
        seq=found.seq,
        request=contexts.require_request(whole),
        sha256=found.sha256 or "",
        tokens=found.record.tokens,
        tokenizer=found.record.tokenizer,
        recall_asked=found.record.recall_asked,
        recall_given=found.record.recall_given,
        included=fate.included,
        cut=fate.cut,
        omitted=fate.omitted,
    )
