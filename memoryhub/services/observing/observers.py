"""Observers: who observes a thread by hand, and steers how it is observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryhub import journal
from memoryhub.errors import InvalidError, NotFoundError
from memoryhub.journal import Order, Receipt, Request
from memoryhub.kernel.commands import Command
from memoryhub.kernel.observing import making
from memoryhub.kernel.observing.lines import Line
from memoryhub.kernel.observing.observing import (
    ActivateObservations,
    CreateObservation,
    CreateReflection,
)
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import ranges
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import extraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What an agent has observed of slots [begin, end)."""

    begin: int
    end: int
    #: In which it read them.
    epoch: int
    lines: Sequence[Line]
    current_task: str | None = None
    suggested_response: str | None = None


async def create(
    *, agent: Agent, thread: str, draft: Draft, request: Request | None = None
) -> Receipt:
    """Keep what an agent has observed; the built-in observer pauses then.

    Emits observer.paused once, then page.created. Raises RangeTakenError,
    RangeOpenError, StaleEpochError, InvalidError for a range that is none.
    """
    command = await read(_drafted, agent, thread, draft)
    return await submit(agent=agent, thread=thread, command=command, request=request)


def _drafted(agent: Agent, name: str, draft: Draft) -> CreateObservation:
    thread = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    found = ranges.read_exactly(thread, draft.begin, draft.end)
    if found is None:
        raise InvalidError(loc="to", allowed="slots of the thread, after `from`")
    places, raw = found
    body = ObservedBody(
        begin=draft.begin, end=draft.end, raw=raw, shown=0, method="agent"
    )
    made = making.made(
        draft.lines,
        body,
        sources=places,
        count=tokenizers.of(thread).count,
        current_task=draft.current_task,
        suggested_response=draft.suggested_response,
    )
    return CreateObservation(made=made, epoch=draft.epoch)


async def run(*, agent: Agent, thread: str, request: Request | None = None) -> Receipt:
    """Observe the next slots now, without a model. Emits page.created, or nothing.

    Raises NotFoundError where nothing is to be observed, or calls wait for results.
    """
    command = await read(_next, agent, thread)
    return await submit(agent=agent, thread=thread, command=command, request=request)


def _next(agent: Agent, name: str) -> CreateObservation:
    thread = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    return observe_next(thread)


def observe_next(thread: Thread) -> CreateObservation:
    """Return the command that observes the next slots without a model.

    Raises NotFoundError where there are none yet.
    """
    state, count = states.state_of(thread), tokenizers.of(thread).count
    found = ranges.read_next(thread, state, count=count)
    if found is None:
        raise NotFoundError
    made = extraction.observe(found, count)
    return CreateObservation(made=made, epoch=state.observing.epoch)


async def reflect(
    *, agent: Agent, thread: str, request: Request | None = None
) -> Receipt:
    """Condense the log now, without a model. Emits page.created and log.reflected.

    Raises NotFoundError where there is no log.
    """
    command = await read(_reflection, agent, thread)
    return await submit(agent=agent, thread=thread, command=command, request=request)


def _reflection(agent: Agent, name: str) -> CreateReflection:
    thread = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    return reflect_now(thread)


def reflect_now(thread: Thread) -> CreateReflection:
    """Return the command that folds the log to half. Raises NotFoundError without."""
    state, count = states.state_of(thread), tokenizers.of(thread).count
    found = ranges.read_log(thread, state)
    if found is None:
        raise NotFoundError
    made = extraction.fold(found, state.observing.log_tokens // 2, count)
    return CreateReflection(made=made, epoch=state.observing.epoch)


async def activate(
    *, agent: Agent, thread: str, request: Request | None = None
) -> Receipt:
    """Take what waits into requests now. Emits observations.activated, or nothing."""
    command = ActivateObservations()
    return await submit(agent=agent, thread=thread, command=command, request=request)


async def submit(
    *, agent: Agent, thread: str, command: Command, request: Request | None = None
) -> Receipt:
    """Send a command of observing for an agent: to pause and to resume, too."""
    order = Order(
        address=agent.address(thread),
        command=command,
        actor=agent.actor,
        request=request,
    )
    return await journal.submit(order)
