"""Observers: who observes a thread by hand, and steers how it is observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal import Address, Order, Receipt, Request
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
    *,
    agent: Agent,
    thread: str,
    draft: Draft,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Keep what an agent has observed; the built-in observer pauses then.

    Emits observer.paused once, then page.created. Raises ObserverOffError,
    RangeTakenError, RangeOpenError, StaleEpochError, InvalidError for a range that is
    none.
    """

    def made(found: Thread) -> CreateObservation:
        return _drafted(found, draft)

    return await _make(agent, thread, made, if_match=if_match, request=request)


def _drafted(thread: Thread, draft: Draft) -> CreateObservation:
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


async def run(
    *,
    agent: Agent,
    thread: str,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Observe the next slots now, without a model. Emits page.created.

    Raises ObserverOffError, NothingToDoError where nothing is to be observed, or calls
    wait for results.
    """
    return await _make(agent, thread, observe_next, if_match=if_match, request=request)


def observe_next(thread: Thread) -> CreateObservation:
    """Return the command that observes the next slots without a model.

    It is refused where there are none yet.
    """
    state, count = states.state_of(thread), tokenizers.of(thread).count
    found = ranges.read_next(thread, state, count=count)
    made = None if found is None else extraction.observe(found, count)
    return CreateObservation(made=made, epoch=state.observing.epoch)


async def reflect(
    *,
    agent: Agent,
    thread: str,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Condense the log now, without a model. Emits page.created and log.reflected.

    Raises ObserverOffError, NothingToDoError where there is no log.
    """
    return await _make(agent, thread, reflect_now, if_match=if_match, request=request)


def reflect_now(thread: Thread) -> CreateReflection:
    """Return the command that folds the log to half; it is refused without a log."""
    state, count = states.state_of(thread), tokenizers.of(thread).count
    found = ranges.read_log(thread, state)
    made = None
    if found is not None:
        made = extraction.fold(found, state.observing.log_tokens // 2, count)
    return CreateReflection(made=made, epoch=state.observing.epoch)


async def activate(
    *,
    agent: Agent,
    thread: str,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Take what waits into requests now. Emits observations.activated, or nothing."""
    return await submit(
        agent=agent,
        thread=thread,
        command=ActivateObservations(),
        if_match=if_match,
        request=request,
    )


async def _make(
    agent: Agent,
    name: str,
    made: Callable[[Thread], CreateObservation | CreateReflection],
    *,
    if_match: int | None,
    request: Request | None,
) -> Receipt:
    """Have a command done that is made of what the thread holds.

    Raises StaleError when something of the subject was erased meanwhile.
    """

    def prepared() -> tuple[Thread, CreateObservation | CreateReflection]:
        found = threads.get_unrestricted(agent.project, name, bound=agent.bound)
        return found, made(found)

    thread, command = await read(prepared)
    return await submit(
        agent=agent,
        thread=name,
        command=command,
        if_match=if_match,
        epoch=thread.subject.epoch,
        request=request,
        size=len(command.made.payload) if command.made else 0,
    )


async def submit(
    *,
    agent: Agent,
    thread: str,
    command: Command,
    if_match: int | None = None,
    epoch: int | None = None,
    request: Request | None = None,
    size: int = 0,
) -> Receipt:
    """Send a command of observing for an agent: to pause and to resume, too."""
    order = Order(
        address=agent.address(thread),
        command=command,
        actor=agent.actor,
        if_match=if_match,
        epoch=epoch,
        request=request,
        size=size,
    )
    return await journal.submit(order)


def perform(thread: Thread, command: Command, *, actor: str) -> Receipt:
    """Send a command of observing for an operator. Raises what the command does.

    `thread` comes with its subject, as they were when the command was made.
    """
    address = Address(project=thread.project_id, name=thread.name)
    epoch = thread.subject.epoch
    order = Order(address=address, command=command, actor=actor, epoch=epoch)
    return journal.perform(order)
