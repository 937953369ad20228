"""Turns: one model call each, its request packed, recorded and handed out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memoryhub import journal
from memoryhub.errors import (
    NoRoomError,
    NotRecordedError,
    ObservationsWantedError,
)
from memoryhub.journal import Order, Receipt, Request
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.packing.cuts import Cut
from memoryhub.kernel.packing.packing import Packed, TooSmallError
from memoryhub.kernel.packing.selection import Options
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

#: How often a turn is begun with observations made for it, while what they are made of
#: is erased; then it begins without.
_PREPARED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """What a model call begins with."""

    slots: Sequence[NewSlot] = ()
    mode: Mode | None = None
    #: None: it continues when no user slot came since the turn before.
    continues: bool | None = None
    #: A smaller budget for this request only.
    token_budget: int | None = None
    #: The agent's own from now on; None leaves them.
    tools: SetTools | None = None
    by: By = "tool"

    @property
    def command(self) -> BeginTurn:
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
        """Bytes of what waits in the queue with it."""
        tools = len(self.tools.definitions) if self.tools else 0
        return tools + sum(len(slot.content) for slot in self.slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A turn and its request."""

    receipt: Receipt
    turn: int
    seq: int
    request: bytes
    sha256: str
    tokens: int
    #: Who counted them.
    tokenizer: str
    #: For what it brings along: those that the thread asks for, if it does, and used.
    recall_asked: int | None = None
    recall_given: int = 0
    included: tuple[str, ...] = ()
    cut: tuple[Cut, ...] = ()
    omitted: tuple[str, ...] = ()

    @property
    def over_budget(self) -> bool:
        """Whether it began with more than may be held.

        Of an observed thread, messages that nothing stands for are left out then.
        """
        return self.receipt.one(TurnBegan).over_budget


async def begin(
    *,
    agent: Agent,
    thread: str,
    new: NewTurn,
    if_match: int | None = None,
    request: Request | None = None,
) -> Begun:
    """Append the slots, begin a turn, pack its request and record what it is made of.

    Emits slot.appended each, turn.began, page events, then turn.packed in a second
    transaction. A repeat with the same Idempotency-Key answers the same turn, and packs
    it if the process died in between. Raises as `slots.append` does, and NoRoomError
    when not even the newest message fits into the request.
    """
    carried = await read(blocks.list_carried, agent.project, thread, bound=agent.bound)
    command = dataclasses.replace(new.command, blocks=carried)
    order = Order(
        address=agent.address(thread, birth=agent.birth()),
        command=command,
        actor=agent.actor,
        if_match=if_match,
        request=request,
        size=new.size,
    )
    receipt = await _submit(agent, thread, order, command)
    turn = receipt.one(TurnBegan)
    if receipt.replayed:
        begun = await read(_recorded, agent, receipt, turn.n)
        if begun is not None:
            return begun
    options = _options(receipt, turn, token_budget=new.token_budget, blocks=carried)
    return await _pack(agent, thread, receipt, options)


async def _submit(
    agent: Agent, thread: str, order: Order, command: BeginTurn
) -> Receipt:
    """Begin it, with observations where its thread needs them now."""
    where = (agent.project, thread, agent.bound)
    for _ in range(_PREPARED):
        try:
            return await counting.submit(order, partial(counting.with_slots, command))
        except (NoRoomError, ObservationsWantedError) as refusal:
            behind = isinstance(refusal, ObservationsWantedError)
            relieved = await extraction.relieve(*where, behind=behind)
            if not behind:
                if not relieved:
                    raise
                continue
            command = await read(extraction.prepared, *where, command)
            order = dataclasses.replace(order, command=command)
    command = dataclasses.replace(command, observed=(), reflected=None)
    order = dataclasses.replace(order, command=command)
    return await counting.submit(order, partial(counting.with_slots, command))


def _options(receipt: Receipt, turn: TurnBegan, **more: Any) -> Options:
    name = names.called(receipt.name, receipt.subject)
    return Options(name=name, turn=turn.n, mode=turn.mode, now=clock.now(), **more)


async def _pack(agent: Agent, thread: str, receipt: Receipt, options: Options) -> Begun:
    try:
        row, packed, prefix = await read(pack, receipt, options)
    except TooSmallError:
        raise NoRoomError from None
    order = Order(
        address=agent.address(thread),
        command=record(packed, turn=options.turn, as_of_seq=receipt.seq, prefix=prefix),
        actor=agent.actor,
    )
    kept = await journal.submit(order)
    if not kept.events:
        # A repeat at the same time was faster: what it recorded is the request.
        begun = await read(_recorded, agent, receipt, options.turn)
        assert begun is not None
        return begun
    assert kept.state is not None
    contexts.keep(row, options.turn, packed)
    uses.read(agent.prefix, kept.state.subject)
    return Begun(
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


def pack(receipt: Receipt, options: Options) -> tuple[Thread, Packed, int | None]:
    """Pack the request of a thread as of a receipt.

    The last is how many tokens it has in common with the request before.

    Raises packing.TooSmallError.
    """
    row = Thread.objects.select_related("subject").get(id=receipt.thread)
    state = receipt.state or _state_at(row, receipt.seq)
    before = contexts.before(row, options.turn)
    packed = contexts.pack(row, state, options, before=before)
    return row, packed, contexts.prefix_tokens(row, options.turn, packed, before=before)


def record(
    packed: Packed,
    *,
    turn: int,
    as_of_seq: int,
    prefix: int | None,
    simulated: bool = False,
) -> RecordContext:
    """Return the command that stores what a request is made of."""
    return RecordContext(
        turn=turn,
        as_of_seq=as_of_seq,
        record=packed.record,
        sha256=packed.sha256,
        prefix_tokens=prefix,
        simulated=simulated,
    )


def _state_at(thread: Thread, seq: int) -> ThreadState:
    return journal.state_at(thread, seq).state


def _recorded(agent: Agent, receipt: Receipt, turn: int) -> Begun | None:
    """The turn as it was answered before; None if it was never packed."""
    row = Thread.objects.select_related("subject").get(id=receipt.thread)
    try:
        found = contexts.recorded(row, turn)
    except NotRecordedError:
        return None
    whole = contexts.reassemble(row, found)
    fate = contexts.fates(row, found)
    # Whoever is handed a turn's request has read what is in it.
    uses.read(agent.prefix, row.subject_id)
    return Begun(
        receipt=receipt,
        turn=turn,
        seq=found.seq,
        request=contexts.require(whole),
        sha256=found.sha256 or "",
        tokens=found.record.tokens,
        tokenizer=found.record.tokenizer,
        recall_asked=found.record.recall_asked,
        recall_given=found.record.recall_given,
        included=fate.included,
        cut=fate.cut,
        omitted=fate.omitted,
    )
