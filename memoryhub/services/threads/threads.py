"""Threads: made, forked, amended, closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import F

from memoryhub import journal
from memoryhub.errors import (
    InvalidError,
    NotFoundError,
    ProjectFullError,
    Refusal,
    SubjectConflictError,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.journal import Address, Birth, Order, Receipt, Request
from memoryhub.journal.rows import tombstones
from memoryhub.kernel.commands import (
    AmendThread,
    CloseThread,
    Command,
    CreateThread,
    ForkThread,
    ReopenThread,
    Setting,
)
from memoryhub.kernel.state.events import CloseReason, LabelValue, Limits
from memoryhub.kernel.state.state import Scope
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent

Labels = Mapping[str, LabelValue]


async def create(
    *,
    agent: Agent,
    thread: str,
    subject: Subject | None = None,
    scope: Scope,
    labels: Labels | None = None,
    config: Limits,
    request: Request | None = None,
) -> Receipt:
    """Create the thread, or return it as it is; absent fields are not compared.

    Emits thread.created, or thread.described when scope levels are filled. Raises
    ScopeConflictError, SubjectConflictError, ProjectFullError, InvalidError for days
    to idle below the project's.
    """
    if agent.bound is not None and subject is not None and subject.id != agent.bound:
        raise NotFoundError
    await _require_kept(agent, thread, config.retention_idle_days, made=True)
    subject_id = subject.id if subject else None
    if (subject_id or agent.bound or agent.anonymous) == agent.anonymous:
        # What is known of nobody in particular is of many, and stands in no request.
        if config.blocks:
            raise InvalidError(loc="config.blocks", allowed="`false` without a subject")
        config = config.model_copy(update={"blocks": False})
    command = CreateThread(
        subject=subject_id, scope=scope, labels=labels, config=config
    )
    birth = Birth(subject=subject_id or agent.bound or agent.anonymous, command=command)
    return await _submit(
        agent, agent.address(thread, birth=birth), command, request=request
    )


def require_creatable(project: UUID, name: str) -> None:
    """Raise what `create` would for a subject that is still to be made.

    Asked first, so that a refusal makes no subject and no key. At most three queries.
    """
    rows = Thread.objects.select_related("subject")
    thread = rows.filter(project_id=project, name=name).first()
    if thread is not None:
        raise _of_another(thread)
    for dead in tombstones.dead_names([(project, name)]).values():
        raise dead.refusal()
    full = Project.objects.filter(id=project, thread_count__gte=F("max_threads"))
    limit = full.values_list("max_threads", flat=True).first()
    if limit is not None:
        raise ProjectFullError(max_threads=limit)


async def fork(
    *, agent: Agent, name: str, command: ForkThread, request: Request | None = None
) -> Receipt:
    """Make a thread that goes on from its parent's state; see `fork_command`.

    Emits thread.forked. Raises NameTakenError, ForkTooDeepError, ProjectFullError,
    InvalidError for days to idle below the project's.
    """
    await _require_kept(agent, name, command.config.retention_idle_days, made=True)
    address = replace(agent.address(name), fresh=True)
    return await _submit(agent, address, command, request=request)


def fork_command(
    parent: Thread, seq: int, *, scope: Scope, labels: Labels | None, config: Limits
) -> ForkThread:
    """Return the command that forks. `parent` comes with its subject.

    Reads the parent's history, which can't change; so it may be read before the
    transaction that forks. Raises SeqUnknownError beyond the head.
    """
    folded = journal.state_at(parent, seq)
    return ForkThread(
        parent=folded.state,
        parent_chain=folded.chain.hex(),
        scope=scope,
        labels=labels,
        config=config,
    )


async def amend(
    *,
    agent: Agent,
    thread: str,
    scope: Scope,
    labels: Labels | None = None,
    config: Mapping[str, Setting] | None = None,
    if_match: int | None = None,
) -> Receipt:
    """Fill scope levels, replace the labels, change limits.

    Raises InvalidError for days to idle below the project's.
    """
    await _require_kept(agent, thread, (config or {}).get("retention_idle_days"))
    command = AmendThread(scope=scope, labels=labels, config=config)
    return await _submit(agent, agent.address(thread), command, if_match=if_match)


async def close(
    *, agent: Agent, thread: str, reason: CloseReason, request: Request | None = None
) -> Receipt:
    """Refuse agent writes from here on; a repeat writes nothing."""
    command = CloseThread(reason=reason)
    return await _submit(agent, agent.address(thread), command, request=request)


async def reopen(
    *, agent: Agent, thread: str, request: Request | None = None
) -> Receipt:
    """Take agent writes again; a repeat writes nothing."""
    return await _submit(agent, agent.address(thread), ReopenThread(), request=request)


def _of_another(thread: Thread) -> Refusal:
    """Why a new subject can't have this thread, in the journal's order of asking."""
    if thread.status == Thread.Status.IMPORTING:
        return NotFoundError()
    if thread.subject.state in (Subject.State.ERASING, Subject.State.ERASED):
        return SubjectErasedError()
    if thread.subject.state == Subject.State.RESTRICTED:
        return SubjectRestrictedError()
    if thread.status in (Thread.Status.RETIRED, Thread.Status.ERASED):
        return ThreadErasedError()
    return SubjectConflictError()


async def _require_kept(
    agent: Agent, thread: str, idle_days: Any, *, made: bool = False
) -> None:
    """What an agent is talked into must not have anything erased."""
    if idle_days is not None:
        require = partial(projects.require_kept, made=made, bound=agent.bound)
        await read(require, agent.project, thread, idle_days)


async def _submit(
    agent: Agent,
    address: Address,
    command: Command,
    *,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    return await journal.submit(
        Order(
            address=address,
            command=command,
            actor=agent.actor,
            if_match=if_match,
            request=request,
        )
    )
