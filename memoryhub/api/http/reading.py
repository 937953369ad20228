"""Where every look-up of an agent starts: its project, and its subject if bound."""

from __future__ import annotations

from uuid import UUID

from memoryhub.api.document.schemas import AsOf
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
from memoryhub.journal.writing.uses import uses
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.people import profiles
from memoryhub.queries.replay import replay, states
from memoryhub.queries.threads import threads
from memoryhub.services.access.api_keys import Agent

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
    """Find the agent's thread of that name.

    Raises NotFoundError for anyone else's.
    """
    thread = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    uses.read(agent.prefix, thread.subject_id)
    return thread


def find_subject(agent: Agent, place: UUID | str) -> Subject:
    """Find the agent's subject whose memory it may use, with its project.

    By its id, or by the name of a thread of it. Raises NotFoundError for anyone
    else's, SubjectErasedError, SubjectRestrictedError; by a name as `find_thread`.
    """
    if isinstance(place, str):
        return find_thread(agent, place).subject
    found = profiles.get_subject(agent.project, place, bound=agent.bound)
    if found.state == Subject.State.RESTRICTED:
        raise SubjectRestrictedError
    uses.read(agent.prefix, found.id)
    return found


def require_unrestricted(agent: Agent) -> None:
    """Raise SubjectRestrictedError for a key bound to a subject that is restricted.

    For what lists or counts all that a key may see. One query for a bound key.
    """
    if agent.bound is None:
        return
    rows = Subject.objects.filter(id=agent.bound, state=Subject.State.RESTRICTED)
    if rows.exists():
        raise SubjectRestrictedError


def find_state(agent: Agent, name: str, moment: AsOf) -> tuple[Thread, ThreadState]:
    """Find the agent's thread of that name, and its state as of then.

    Raises as both.
    """
    thread = find_thread(agent, name)
    return thread, states.state_of(thread, seq_of(thread, moment))


def seq_of(thread: Thread, moment: AsOf) -> int | None:
    """Return the seq to answer as of; None is now.

    Raises SeqUnknownError beyond the head.
    """
    if moment.at_turn is not None:
        return replay.seq_at_turn(thread, moment.at_turn)
    if moment.at_seq is not None and moment.at_seq > thread.head_seq:
        raise SeqUnknownError
    return moment.at_seq
