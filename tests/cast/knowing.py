"""Knowledge about people in tests: facts asserted, ended, retracted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from memoryhub.journal import OrderReceipt
from memoryhub.kernel.knowledge.facts import NewFact, Reason
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import facts as known
from memoryhub.queries.knowledge.facts import AssertionSource, FactFilter, FactLine
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks, facts, homes
from memoryhub.services.knowledge.blocks import BlockDraft
from tests.cast.factories import run

#: A claim to be asserted, with the record that it was learnt from.
Claim = tuple[NewFact, AssertionSource | None]
START = datetime(2026, 1, 1, tzinfo=UTC)


def to_day(n: int) -> datetime:
    return START + timedelta(days=n)


def claim(
    value: str,
    begin: int | None = None,
    end: int | None = None,
    *,
    predicate: str = "home airport",
    source: tuple[str, int] | None = None,
    **more: Any,
) -> Claim:
    fields: dict[str, Any] = {"entity": "user", "origin": "agent", **more}
    fact = NewFact(
        predicate=predicate,
        value=value,
        valid_from=None if begin is None else to_day(begin),
        valid_until=None if end is None else to_day(end),
        **fields,
    )
    return fact, AssertionSource(*source) if source else None


def say(agent: Agent, subject: Subject, *claims: Claim) -> OrderReceipt:
    """Assert these claims, in one commit."""
    command = facts.build_assertion(subject, claims, now=clock.now(), bound=agent.bound)
    texts = [fact.payload for fact in command.facts]
    return run(homes.submit(agent=agent, subject=subject, command=command, texts=texts))


def end(agent: Agent, subject: Subject, seq: int, at: int) -> OrderReceipt:
    command = facts.build_ending(
        subject, seq, at=to_day(at), origin="agent", now=clock.now()
    )
    return run(homes.submit(agent=agent, subject=subject, command=command))


def retract(
    agent: Agent,
    subject: Subject,
    seq: int,
    reason: Reason = "withdrawn",
    *,
    whole: bool = True,
) -> OrderReceipt:
    command = facts.build_retraction(subject, seq, reason, whole=whole, now=clock.now())
    return run(homes.submit(agent=agent, subject=subject, command=command))


def configure(
    agent: Agent, subject: Subject, cardinality: Cardinality | None, predicate: str
) -> OrderReceipt:
    command = facts.build_configuration("user", predicate, cardinality)
    return run(homes.submit(agent=agent, subject=subject, command=command))


def every(subject: Subject, **where: Any) -> list[FactLine]:
    """Return all facts of a subject that match."""
    where.setdefault("valid_at", to_day(1000))
    found: list[FactLine] = []
    after: str | None = None
    while True:
        batch = known.list_facts(subject, FactFilter(**where), after=after, limit=3)
        found += batch.items
        if (after := batch.next) is None:
            return found


def to_spans(found: list[FactLine]) -> list[tuple[str, int, int | None]]:
    """Each as (value, first day, day of its end)."""
    return [
        (
            fact.value,
            (fact.valid_from - START).days,
            None if fact.valid_until is None else (fact.valid_until - START).days,
        )
        for fact in found
    ]


def write(agent: Agent, subject: Subject, block: str, text: str) -> Thread:
    """Write a block, or its next version; return its home thread."""
    draft = BlockDraft(block=block, text=text)
    run(blocks.put_block(agent=agent, subject=subject, draft=draft))
    home = find_home(subject)
    assert home is not None
    return home
