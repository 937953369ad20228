"""Look-ups of an agent, limited to its project, and to its subject if bound."""

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
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.people import profiles
from memoryhub.queries.replay import replay, states
from memoryhub.queries.threads import threads
from memoryhub.services.access.api_keys import Agent

#: Refusals of any route of a thread.
GONE = (
    NotFoundError,
    ThreadErasedError,
    SubjectErasedError,
    SubjectRestrictedError,
    CorruptError,
    NewerFormatError,
    KeyMissingError,
)


def get_agent_thread(agent: Agent, name: str) -> Thread:
    """Get the agent's thread of that name.

    Raises NotFoundError for another project's or subject's thread.
    """
    thread = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    uses.count_read(agent.prefix, thread.subject_id)
    return thread


def get_agent_subject(agent: Agent, place: UUID | str) -> Subject:
    """Get the agent's subject whose memory it may use, with its project.

    `place` is the subject's id or the name of a thread of the subject. Raises
    NotFoundError for another project's subject, SubjectErasedError,
    SubjectRestrictedError; for a name what `get_agent_thread` raises.
    """
    if isinstance(place, str):
        return get_agent_thread(agent, place).subject
    found = profiles.get_subject(agent.project, place, bound=agent.bound)
    if found.state == Subject.State.RESTRICTED:
        raise SubjectRestrictedError
    uses.count_read(agent.prefix, found.id)
    return found


def get_agent_home(
    agent: Agent, place: UUID | str, moment: AsOf
) -> tuple[Subject, Thread | None, int | None]:
    """Get the subject, its home thread, and the seq to answer as of; None is now.

    Raises what `get_agent_subject` and `get_seq` raise.
    """
    subject = get_agent_subject(agent, place)
    home = find_home(subject)
    if home is None:
        if moment.at_seq or moment.at_turn is not None:
            raise SeqUnknownError
        return subject, None, None
    return subject, home, get_seq(home, moment)


def require_unrestricted(agent: Agent) -> None:
    """Raise SubjectRestrictedError for a key bound to a restricted subject.

    Used by routes that list or count everything a key may see. One query for a bound
    key.
    """
    if agent.bound is None:
        return
    rows = Subject.objects.filter(id=agent.bound, state=Subject.State.RESTRICTED)
    if rows.exists():
        raise SubjectRestrictedError


def get_agent_state(
    agent: Agent, name: str, moment: AsOf
) -> tuple[Thread, ThreadState]:
    """Get the agent's thread of that name, and its state as of `moment`.

    Raises what `get_agent_thread` and `get_seq` raise.
    """
    thread = get_agent_thread(agent, name)
    return thread, states.load_state(thread, get_seq(thread, moment))


def get_seq(thread: Thread, moment: AsOf) -> int | None:
    """Return the seq to answer as of; None is now.

    Raises SeqUnknownError beyond the head.
    """
    if moment.at_turn is not None:
        return replay.get_turn_end(thread, moment.at_turn)
    if moment.at_seq is not None and moment.at_seq > thread.head_seq:
        raise SeqUnknownError
    return moment.at_seq
