"""What operators do to threads: ordinary commands, under an actor of their own."""

from __future__ import annotations

import orjson

from memoryhub import journal
from memoryhub.errors import BeyondHeadError, InvalidError, SeqUnknownError
from memoryhub.journal import Address, Order, Receipt
from memoryhub.kernel.commands import (
    AmendThread,
    CloseThread,
    Command,
    ReopenThread,
)
from memoryhub.kernel.state.events import CloseReason, Limits
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.services.access import projects
from memoryhub.services.threads import threads


def close(thread: Thread, *, actor: str, reason: CloseReason) -> Receipt:
    """Refuse agent writes from here on; a repeat writes nothing."""
    return _perform(thread.name, thread, CloseThread(reason=reason), actor)


def reopen(thread: Thread, *, actor: str) -> Receipt:
    """Take agent writes again; a repeat writes nothing."""
    return _perform(thread.name, thread, ReopenThread(), actor)


def keep(
    thread: Thread, *, actor: str, idle_days: int | None, owner: bool = False
) -> Receipt:
    """Give the thread days of its own to idle; None goes by the project's.

    Emits thread.configured; a repeat writes nothing. What an operator writes counts as
    activity, so the days begin anew. Raises InvalidError outside 1 to 36,500, and below
    the project's days unless an `owner` asks.
    """
    projects.require_idle_days(idle_days)
    if not owner:
        projects.require_kept(thread.project_id, thread.name, idle_days)
    command = AmendThread(config={"retention_idle_days": idle_days})
    return _perform(thread.name, thread, command, actor)


def fork(thread: Thread, *, actor: str, name: str, seq: int) -> Receipt:
    """Make a thread that goes on from this one as it was at `seq`.

    It takes the scope, labels and limits of its parent. `thread` comes with its
    subject. Emits thread.forked. Raises InvalidError, BeyondHeadError, NameTakenError,
    ForkTooDeepError, ProjectFullError.
    """
    if not names.valid(name):
        raise InvalidError(code="name", loc="name")
    if names.reserved(name):
        raise InvalidError(code="reserved_name", loc="name")
    try:
        command = threads.fork_command(
            thread,
            seq,
            scope=_scope(thread),
            labels=orjson.loads(thread.labels),
            config=Limits.model_validate_json(thread.config),
        )
    except SeqUnknownError:
        raise BeyondHeadError(head_seq=thread.head_seq) from None
    return _perform(name, thread, command, actor, fresh=True)


def _scope(thread: Thread) -> Scope:
    return Scope(
        agent_type=thread.agent_type,
        agent_instance=thread.agent_instance,
        session=thread.session,
    )


def _perform(
    name: str, thread: Thread, command: Command, actor: str, *, fresh: bool = False
) -> Receipt:
    address = Address(project=thread.project_id, name=name, fresh=fresh)
    return journal.perform(Order(address=address, command=command, actor=actor))
