"""Observers: observations by agents, and commands that steer observing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal import Address, KeyedRequest, Order, OrderReceipt
from memoryhub.kernel.commands import Command
from memoryhub.kernel.observing import making
from memoryhub.kernel.observing.lines import ObservationLine
from memoryhub.kernel.observing.observing import (
    ActivateObservations,
    CreateObservation,
    CreateReflection,
    InstructObservers,
)
from memoryhub.kernel.state.observing import ObserverRole
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.models.projects import MOST_INSTRUCTION_BYTES
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import ranges
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import extraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationDraft:
    """Agent's observation of slots [begin, end)."""

    begin: int
    end: int
    #: Observing epoch in which the agent read the slots.
    epoch: int
    lines: Sequence[ObservationLine]
    current_task: str | None = None
    suggested_response: str | None = None


async def create_observation(
    *,
    agent: Agent,
    thread: str,
    draft: ObservationDraft,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Store an agent's observation; the built-in observer pauses from then on.

    Emits observer.paused once, then page.created. Raises ObserverOffError,
    RangeTakenError, RangeOpenError, StaleEpochError, InvalidError for an invalid range.
    """

    def build_command(found: Thread) -> CreateObservation:
        return _build_drafted(found, draft)

    return await _submit_built(
        agent, thread, build_command, if_match=if_match, request=request
    )


def _build_drafted(thread: Thread, draft: ObservationDraft) -> CreateObservation:
    """Build the command of an agent's observation. Raises InvalidError."""
    found = ranges.read_exactly(thread, draft.begin, draft.end)
    if found is None:
        raise InvalidError(loc="to", allowed="slots of the thread, after `from`")
    places, raw = found
    body = ObservedBody(
        begin=draft.begin, end=draft.end, raw=raw, shown=0, method="agent"
    )
    made = making.build_observation(
        draft.lines,
        body,
        sources=places,
        count=tokenizers.get_for_thread(thread).count,
        current_task=draft.current_task,
        suggested_response=draft.suggested_response,
    )
    return CreateObservation(made=made, epoch=draft.epoch)


async def observe_now(
    *,
    agent: Agent,
    thread: str,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Observe the next slots now, without a model. Emits page.created.

    Raises ObserverOffError, NothingToDoError where nothing is to be observed, or calls
    wait for results.
    """
    return await _submit_built(
        agent, thread, build_next_observation, if_match=if_match, request=request
    )


def build_next_observation(thread: Thread) -> CreateObservation:
    """Build the command that observes the next slots without a model.

    The command is refused where there are no slots to observe yet.
    """
    state, count = states.load_state(thread), tokenizers.get_for_thread(thread).count
    found = ranges.read_next(thread, state, count=count)
    made = None if found is None else extraction.observe_range(found, count)
    return CreateObservation(made=made, epoch=state.observing.epoch)


async def reflect_log(
    *,
    agent: Agent,
    thread: str,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Condense the log now, without a model. Emits page.created and log.reflected.

    Raises ObserverOffError, NothingToDoError where there is no log.
    """
    return await _submit_built(
        agent, thread, build_reflection, if_match=if_match, request=request
    )


def build_reflection(thread: Thread) -> CreateReflection:
    """Build the command that folds the log to half; it is refused without a log."""
    state, count = states.load_state(thread), tokenizers.get_for_thread(thread).count
    found = ranges.read_log(thread, state)
    made = None
    if found is not None:
        made = extraction.fold_log(found, state.observing.log_tokens // 2, count)
    return CreateReflection(made=made, epoch=state.observing.epoch)


async def activate_observations(
    *,
    agent: Agent,
    thread: str,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Activate waiting observations in requests now.

    Emits observations.activated, or nothing.
    """
    return await submit_command(
        agent=agent,
        thread=thread,
        command=ActivateObservations(),
        if_match=if_match,
        request=request,
    )


def build_instructing(texts: Mapping[ObserverRole, str | None]) -> InstructObservers:
    """Build the command that sets a thread's own instructions, by role.

    An empty text is no instructions, None those of the project. Raises InvalidError on
    more than 8,192 bytes of UTF-8 in one text.
    """
    kept = {role: text and text.strip() for role, text in texts.items()}
    for role, text in kept.items():
        if len((text or "").encode(errors="replace")) > MOST_INSTRUCTION_BYTES:
            raise InvalidError(loc=role, most=MOST_INSTRUCTION_BYTES)
    return InstructObservers(texts=kept)


async def _submit_built(
    agent: Agent,
    name: str,
    made: Callable[[Thread], CreateObservation | CreateReflection],
    *,
    if_match: int | None,
    request: KeyedRequest | None,
) -> OrderReceipt:
    """Submit a command that is built from the thread's content.

    Raises StaleError when something of the subject was erased meanwhile.
    """

    def find_and_build() -> tuple[Thread, CreateObservation | CreateReflection]:
        found = threads.get_unrestricted(agent.project, name, bound=agent.bound)
        return found, made(found)

    thread, command = await read(find_and_build)
    return await submit_command(
        agent=agent,
        thread=name,
        command=command,
        if_match=if_match,
        epoch=thread.subject.epoch,
        request=request,
        size=len(command.made.payload) if command.made else 0,
    )


async def submit_command(
    *,
    agent: Agent,
    thread: str,
    command: Command,
    if_match: int | None = None,
    epoch: int | None = None,
    request: KeyedRequest | None = None,
    size: int = 0,
) -> OrderReceipt:
    """Submit an agent's command of observing, pause and resume included."""
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


def perform_command(thread: Thread, command: Command, *, actor: str) -> OrderReceipt:
    """Perform an operator's command of observing. Raises what the command raises.

    `thread` comes with its subject, both as they were when the command was built.
    """
    address = Address(project=thread.project_id, name=thread.name)
    epoch = thread.subject.epoch
    order = Order(address=address, command=command, actor=actor, epoch=epoch)
    return journal.perform(order)
