"""Consolidation: what was learnt of an exchange, written once whatever races.

Pure. Verbs decide, participles fold. An exchange that somebody else has asked about
meanwhile, or that has failed once more, refuses the command.
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
from memoryhub.kernel.parts import Decide, Part
from memoryhub.kernel.state.bodies import Count, Event, Figure, Instant, Token
from memoryhub.kernel.state.knowledge import Consolidated, FailedExchange
from memoryhub.kernel.state.state import ThreadState

#: Seconds until a failed exchange is due again; after that it is given up.
RETRIES: Final = (60, 600, 3_600)

Failure = Literal["no_model", "no_answer", "full"]


class ExchangeConsolidated(Event):
    """An exchange of a thread was asked of the model, with what came of it."""

    event_type = "exchange.consolidated"

    thread: Token
    begin: Count
    to: Count
    learnt: Count
    #: Claims that were none, or may not come back.
    dropped: Count
    tokens_in: Count
    tokens_out: Count
    #: None where nobody said what the model takes.
    cost: Figure | None = None
    #: Why nothing was learnt; None if the model has answered.
    failed: Failure | None = None
    #: When it is due again; None with a failure: it was given up.
    retry_at: Instant | None = None
    #: Of the model, which was given the exchange.
    host: Token | None = None
    #: Exchanges that begin from this slot on, before this one, were passed over: newer
    #: ones are asked about first.
    skipped_from: Count | None = None


class ExchangeRetried(Event):
    """An operator wants a failed exchange to be asked once more."""

    event_type = "exchange.retried"

    thread: Token
    begin: Count
    retry_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate(Command):
    """Write what was learnt of the slots [begin, end) of a thread, or why not."""

    thread: str
    begin: int
    end: int
    #: How often this one had failed when it was read.
    attempts: int = 0
    #: Where others begin that were passed over, if any were.
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
    """Have a failed exchange asked once more, even if it was given up."""

    thread: str
    begin: int
    retry_at: datetime


def consolidate(decision: Decision, command: Consolidate, pages: PageTable) -> None:
    """Assert what was learnt, and record it.

    Emits fact.asserted each, and exchange.consolidated. Raises StaleError when somebody
    else was faster, and what asserting facts raises.
    """
    held = decision.state.knowledge.consolidated.get(command.thread, Consolidated())
    failed = held.find(command.begin)
    attempts = failed.attempts if failed else 0
    again = attempts == 0 and held.was_asked(command.begin)
    if attempts != command.attempts or again:
        raise StaleError(head_seq=decision.state.seq)
    skipped_from = None
    if command.skipped_from is not None and command.begin >= held.to:
        # Others may have been asked about since it was read.
        first = max(command.skipped_from, held.to)
        skipped_from = first if first < command.begin else None
    facts.assert_facts(decision, AssertFacts(facts=command.facts), pages)
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


def retry(decision: Decision, command: RetryExchange, pages: PageTable) -> None:
    """Have it asked once more. Emits exchange.retried.

    Raises NotFoundError where no such exchange has failed.
    """
    held = decision.state.knowledge.consolidated.get(command.thread, Consolidated())
    if held.find(command.begin) is None:
        raise NotFoundError
    decision.emit(
        ExchangeRetried(
            thread=command.thread, begin=command.begin, retry_at=command.retry_at
        )
    )


def consolidated(state: ThreadState, event: ExchangeConsolidated) -> ThreadState:
    knowledge = state.knowledge
    held = knowledge.consolidated.get(event.thread, Consolidated())
    before = held.find(event.begin)
    failed = [each for each in held.failed if each.begin != event.begin]
    if event.failed is not None:
        attempts = before.attempts + 1 if before else 1
        failed.append(FailedExchange(event.begin, event.to, attempts, event.retry_at))
    now = held.with_asked(event.begin, event.to, event.skipped_from)
    now = now._replace(failed=tuple(sorted(failed, key=_begin)))
    threads = knowledge.consolidated.insert(event.thread, now)
    hosts = knowledge.hosts
    if event.host is not None and event.host not in hosts:
        hosts = tuple(sorted((*hosts, event.host)))
    knowledge = knowledge._replace(consolidated=threads, hosts=hosts)
    return state._replace(knowledge=knowledge)


def retried(state: ThreadState, event: ExchangeRetried) -> ThreadState:
    knowledge = state.knowledge
    held = knowledge.consolidated[event.thread]
    failed = tuple(
        each._replace(retry_at=event.retry_at) if each.begin == event.begin else each
        for each in held.failed
    )
    threads = knowledge.consolidated.insert(event.thread, held._replace(failed=failed))
    return state._replace(knowledge=knowledge._replace(consolidated=threads))


def _begin(failed: FailedExchange) -> int:
    return failed.begin


_COMMANDS: dict[type[Command], Decide] = {
    Consolidate: consolidate,
    RetryExchange: retry,
}
PART = Part(
    commands=_COMMANDS,
    home=frozenset(_COMMANDS),
    events={ExchangeConsolidated: consolidated, ExchangeRetried: retried},
)
