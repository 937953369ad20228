"""Where every look-up of an agent starts: its project, and its subject if bound."""

from __future__ import annotations

from memoryhub.api.schemas import AsOf
from memoryhub.errors import (
    CorruptError,
    KeyMissingError,
    NewerFormatError,
    NotFoundError,
    SeqUnknownError,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.kernel.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries import replay, states, threads
from memoryhub.services.api_keys import Agent

#: What any route of a thread may answer instead.
GONE = (
    NotFoundError,
    ThreadErasedError,
    SubjectErasedError,
    SubjectRestrictedError,
    CorruptError,
    NewerFormatError,
    KeyMissingError,
)


def find_thread(agent: Agent, name: str) -> Thread:
    """The agent's thread of that name. Raises NotFoundError for anyone else's."""
    thread = threads.get_thread(agent.project, name, bound=agent.bound)
    threads.require_unrestricted(thread)
    return thread


def find_state(agent: Agent, name: str, moment: AsOf) -> tuple[Thread, ThreadState]:
    """The agent's thread of that name, and its state as of then. Raises as both."""
    thread = find_thread(agent, name)
    return thread, states.state_of(thread, seq_of(thread, moment))


def seq_of(thread: Thread, moment: AsOf) -> int | None:
    """The seq to answer as of; None is now. Raises SeqUnknownError beyond the head."""
    if moment.at_turn is not None:
        return replay.seq_at_turn(thread, moment.at_turn)
    if moment.at_seq is not None and moment.at_seq > thread.head_seq:
        raise SeqUnknownError
    return moment.at_seq
