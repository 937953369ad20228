"""Consolidation: claims learnt from an exchange, written once despite races. Pure.

The decision refuses the command if another worker has consolidated the exchange, or
has recorded another failure, in the meantime.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from memoryhub.errors import NotFoundError, StaleError
from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.knowledge import facts
from memoryhub.kernel.knowledge.facts import AssertFacts, NewFact
from memoryhub.kernel.parts import Decide, KernelPart
from memoryhub.kernel.state.bodies import Count, EventBody, Figure, Instant, Token
from memoryhub.kernel.state.knowledge import ConsolidationState, FailedExchange
from memoryhub.kernel.state.state import ThreadState

#: Seconds until each retry of a failed exchange; the last failure gives it up.
RETRIES: Final = (60, 600, 3_600)

Failure = Literal["no_model", "no_answer", "full"]


class ExchangeConsolidated(EventBody):
    """The model was asked about an exchange of a thread; the result is recorded."""

    event_type = "exchange.consolidated"

    thread: Token
    begin: Count
    to: Count
    learnt: Count
    #: Number of claims that were invalid, or blocked by a tombstone.
    dropped: Count
    tokens_in: Count
    tokens_out: Count
    #: None if no price of the model is configured.
    cost: Figure | None = None
    #: Reason why nothing was learnt; None if the model has answered.
    failed: Failure | None = None
    #: Instant of the next attempt; None with a failure: the exchange was given up.
    retry_at: Instant | None = None
    #: Host of the model that received the exchange.
    host: Token | None = None
    #: First slot of the exchanges before this exchange that were passed over, because
    #: the worker asks about newer exchanges first.
    skipped_from: Count | None = None


class ExchangeRetried(EventBody):
    """An operator requested another attempt at a failed exchange."""

    event_type = "exchange.retried"

    thread: Token
    begin: Count
    retry_at: Instant


class ExchangeRequested(EventBody):
    """Somebody requested an exchange's consolidation, whatever its project's setting.

    The request stands until the model has answered, or the exchange is given up.
    """

    event_type = "exchange.requested"

    thread: Token
    begin: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidateExchange(Command):
    """Write the facts learnt from slots [begin, end) of a thread, or the failure."""

    thread: str
    begin: int
    end: int
    #: Number of failures of the exchange when the worker read it.
    attempts: int = 0
    #: First slot of the exchanges passed over before this exchange, if any.
    skipped_from: int | None = None
    facts: tuple[NewFact, ...] = ()
    dropped: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    failed: Failure | None = None
    retry_at: datetime | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryExchange(Command):
    """Schedule another attempt at a failed exchange, even if it was given up."""

    thread: str
    begin: int
    retry_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestExchanges(Command):
    """Request the consolidation of exchanges: each by thread and first slot."""

    exchanges: tuple[tuple[str, int], ...]


def decide_consolidate_exchange(
    decision: Decision, command: ConsolidateExchange, pages: PageTable
) -> None:
    """Assert the facts learnt from an exchange, and record the consolidation.

    Emits fact.asserted for each fact, and exchange.consolidated. Raises StaleError when
    another worker was faster, and the errors of `decide_assert_facts`.
    """
    held = decision.state.knowledge.consolidated.get(
        command.thread, ConsolidationState()
    )
    failed = held.find_failed(command.begin)
    attempts = failed.attempts if failed else 0
    again = attempts == 0 and held.has_asked(command.begin)
    if attempts != command.attempts or again:
        raise StaleError(head_seq=decision.state.seq)
    skipped_from = None
    if command.skipped_from is not None and command.begin >= held.to:
        # The model may have been asked about others since the exchange was read.
        first = max(command.skipped_from, held.to)
        skipped_from = first if first < command.begin else None
    facts.decide_assert_facts(decision, AssertFacts(facts=command.facts), pages)
    decision.emit(
        ExchangeConsolidated(
            thread=command.thread,
            begin=command.begin,
            to=command.end,
            learnt=len(command.facts),
            dropped=command.dropped,
            tokens_in=command.tokens_in,
            tokens_out=command.tokens_out,
            cost=command.cost,
            failed=command.failed,
            retry_at=command.retry_at,
            host=command.host,
            skipped_from=skipped_from,
        )
    )


def decide_retry_exchange(
    decision: Decision, command: RetryExchange, pages: PageTable
) -> None:
    """Schedule another attempt at an exchange. Emits exchange.retried.

    Raises NotFoundError if the exchange has not failed.
    """
    held = decision.state.knowledge.consolidated.get(
        command.thread, ConsolidationState()
    )
    if held.find_failed(command.begin) is None:
        raise NotFoundError
    decision.emit(
        ExchangeRetried(
            thread=command.thread, begin=command.begin, retry_at=command.retry_at
        )
    )


def decide_request_exchanges(
    decision: Decision, command: RequestExchanges, pages: PageTable
) -> None:
    """Request exchanges that the model was not asked about and nobody requested.

    Emits exchange.requested for each, or nothing.
    """
    knowledge = decision.state.knowledge
    for thread, begin in command.exchanges:
        held = knowledge.consolidated.get(thread, ConsolidationState())
        requested = begin in knowledge.requested.get(thread, ())
        if not requested and not held.has_asked(begin):
            decision.emit(ExchangeRequested(thread=thread, begin=begin))


def apply_exchange_consolidated(
    state: ThreadState, event: ExchangeConsolidated
) -> ThreadState:
    knowledge = state.knowledge
    held = knowledge.consolidated.get(event.thread, ConsolidationState())
    before = held.find_failed(event.begin)
    failed = [each for each in held.failed if each.begin != event.begin]
    if event.failed is not None:
        attempts = before.attempts + 1 if before else 1
        failed.append(FailedExchange(event.begin, event.to, attempts, event.retry_at))
    now = held.mark_asked(event.begin, event.to, event.skipped_from)
    now = now._replace(failed=tuple(sorted(failed, key=_get_begin)))
    threads = knowledge.consolidated.insert(event.thread, now)
    hosts = knowledge.hosts
    if event.host is not None and event.host not in hosts:
        hosts = tuple(sorted((*hosts, event.host)))
    knowledge = knowledge._replace(consolidated=threads, hosts=hosts)
    if event.retry_at is None:
        knowledge = knowledge.drop_request(event.thread, event.begin)
    return state._replace(knowledge=knowledge)


def apply_exchange_retried(state: ThreadState, event: ExchangeRetried) -> ThreadState:
    knowledge = state.knowledge
    held = knowledge.consolidated[event.thread]
    failed = tuple(
        each._replace(retry_at=event.retry_at) if each.begin == event.begin else each
        for each in held.failed
    )
    threads = knowledge.consolidated.insert(event.thread, held._replace(failed=failed))
    return state._replace(knowledge=knowledge._replace(consolidated=threads))


def apply_exchange_requested(
    state: ThreadState, event: ExchangeRequested
) -> ThreadState:
    requested = state.knowledge.requested
    begins = tuple(sorted((*requested.get(event.thread, ()), event.begin)))
    knowledge = state.knowledge._replace(
        requested=requested.insert(event.thread, begins)
    )
    return state._replace(knowledge=knowledge)


def _get_begin(failed: FailedExchange) -> int:
    return failed.begin


_COMMANDS: dict[type[Command], Decide] = {
    ConsolidateExchange: decide_consolidate_exchange,
    RetryExchange: decide_retry_exchange,
    RequestExchanges: decide_request_exchanges,
}
PART = KernelPart(
    commands=_COMMANDS,
    home=frozenset(_COMMANDS),
    events={
        ExchangeConsolidated: apply_exchange_consolidated,
        ExchangeRetried: apply_exchange_retried,
        ExchangeRequested: apply_exchange_requested,
    },
)
