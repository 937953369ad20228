"""Operators' commands for threads, with the operator as actor."""

from __future__ import annotations

import orjson

from memoryhub import journal
from memoryhub.errors import BeyondHeadError, InvalidError, SeqUnknownError
from memoryhub.journal import Address, Order, OrderReceipt
from memoryhub.kernel.commands import (
    AmendThread,
    CloseThread,
    Command,
    ReopenThread,
)
from memoryhub.kernel.state.events import CloseReason
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.services.access import projects
from memoryhub.services.threads import threads


def close(thread: Thread, *, actor: str, reason: CloseReason) -> OrderReceipt:
    """Refuse agent writes from here on; a repeat writes nothing."""
    return _perform_command(thread.name, thread, CloseThread(reason=reason), actor)


def reopen(thread: Thread, *, actor: str) -> OrderReceipt:
    """Accept agent writes again; a repeat writes nothing."""
    return _perform_command(thread.name, thread, ReopenThread(), actor)


def set_retention(
    thread: Thread, *, actor: str, idle_days: int | None, owner: bool = False
) -> OrderReceipt:
    """Set the thread's own idle days before it retires; None uses the project's days.

    Emits thread.configured; a repeat writes nothing. An operator's write counts as
    activity, so the days begin anew. Raises InvalidError outside 1 to 36,500, and below
    the project's days unless an `owner` asks.
    """
    projects.require_idle_days(idle_days)
    if not owner:
        projects.require_retention(thread.project_id, thread.name, idle_days)
    command = AmendThread(config={"retention_idle_days": idle_days})
    return _perform_command(thread.name, thread, command, actor)


def fork(thread: Thread, *, actor: str, name: str, seq: int) -> OrderReceipt:
    """Fork the thread as of `seq`.

    The fork gets the scope and labels of its parent. `thread` comes with its
    subject. Emits thread.forked. Raises InvalidError, BeyondHeadError, NameTakenError,
    ForkTooDeepError, ProjectFullError.
    """
    if not names.is_valid(name):
        raise InvalidError(code="name", loc="name")
    if names.is_reserved(name):
        raise InvalidError(code="reserved_name", loc="name")
    try:
        command = threads.build_fork(
            thread,
            seq,
            scope=_build_scope(thread),
            labels=orjson.loads(thread.labels),
        )
    except SeqUnknownError:
        raise BeyondHeadError(head_seq=thread.head_seq) from None
    return _perform_command(name, thread, command, actor, fresh=True)


def _build_scope(thread: Thread) -> ScopeLabels:
    """Build the scope from the thread's columns."""
    return ScopeLabels(
        agent_type=thread.agent_type,
        agent_instance=thread.agent_instance,
        session=thread.session,
    )


def _perform_command(
    name: str, thread: Thread, command: Command, actor: str, *, fresh: bool = False
) -> OrderReceipt:
    """Perform a command in the thread of this name; with `fresh` it must be new."""
    address = Address(project=thread.project_id, name=name, fresh=fresh)
    return journal.perform(Order(address=address, command=command, actor=actor))
