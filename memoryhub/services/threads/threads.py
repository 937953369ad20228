"""Threads: create, fork, amend, close."""

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
from memoryhub.journal import Address, KeyedRequest, NewThread, Order, OrderReceipt
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
from memoryhub.kernel.state.events import CloseReason, LabelValue, ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent

Labels = Mapping[str, LabelValue]
_AS_PARENT = ThreadConfig()


async def create(
    *,
    agent: Agent,
    thread: str,
    subject: Subject | None = None,
    scope: ScopeLabels,
    labels: Labels | None = None,
    config: ThreadConfig,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Create the thread, or return it as it is; absent fields are not compared.

    Emits thread.created, or thread.described when scope levels are filled. Raises
    ScopeConflictError, SubjectConflictError, ProjectFullError, and InvalidError for
    days to idle below the project's.
    """
    if agent.bound is not None and subject is not None and subject.id != agent.bound:
        raise NotFoundError
    await _require_retention(agent, thread, config.retention_idle_days, made=True)
    subject_id = subject.id if subject else None
    if (subject_id or agent.bound or agent.anonymous) == agent.anonymous:
        # The anonymous subject stands for many people, so its blocks stand in no
        # request.
        if config.blocks:
            raise InvalidError(loc="config.blocks", allowed="`false` without a subject")
        config = config.model_copy(update={"blocks": False})
    command = CreateThread(
        subject=subject_id, scope=scope, labels=labels, config=config
    )
    birth = NewThread(
        subject=subject_id or agent.bound or agent.anonymous, command=command
    )
    return await _submit_command(
        agent, agent.address(thread, birth=birth), command, request=request
    )


def require_creatable(project: UUID, name: str) -> None:
    """Raise what `create` would for a subject that does not exist yet.

    Callers ask first, so that a refusal creates no subject and no key. At most three
    queries.
    """
    rows = Thread.objects.select_related("subject")
    thread = rows.filter(project_id=project, name=name).first()
    if thread is not None:
        raise _build_refusal(thread)
    for dead in tombstones.find_dead_names([(project, name)]).values():
        raise dead.build_refusal()
    full = Project.objects.filter(id=project, thread_count__gte=F("max_threads"))
    limit = full.values_list("max_threads", flat=True).first()
    if limit is not None:
        raise ProjectFullError(max_threads=limit)


async def fork(
    *, agent: Agent, name: str, command: ForkThread, request: KeyedRequest | None = None
) -> OrderReceipt:
    """Fork a thread from its parent's state; see `build_fork`.

    Emits thread.forked. Raises NameTakenError, ForkTooDeepError, ProjectFullError,
    InvalidError for days to idle below the project's.
    """
    await _require_retention(agent, name, command.config.retention_idle_days, made=True)
    address = replace(agent.address(name), fresh=True)
    return await _submit_command(agent, address, command, request=request)


def build_fork(
    parent: Thread,
    seq: int,
    *,
    scope: ScopeLabels,
    labels: Labels | None,
    config: ThreadConfig = _AS_PARENT,
) -> ForkThread:
    """Build the command that forks. `parent` comes with its subject.

    What `config` does not set is the parent's, as of `seq`.

    Reads the parent's history, which can't change, and so may be called before the
    transaction that forks. Raises SeqUnknownError beyond the head.
    """
    folded = journal.fold_thread(parent, seq)
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
    scope: ScopeLabels,
    labels: Labels | None = None,
    config: Mapping[str, Setting] | None = None,
    if_match: int | None = None,
) -> OrderReceipt:
    """Fill scope levels, replace the labels, change limits.

    Raises InvalidError for days to idle below the project's.
    """
    await _require_retention(agent, thread, (config or {}).get("retention_idle_days"))
    command = AmendThread(scope=scope, labels=labels, config=config)
    return await _submit_command(
        agent, agent.address(thread), command, if_match=if_match
    )


async def close(
    *,
    agent: Agent,
    thread: str,
    reason: CloseReason,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Refuse agent writes from here on; a repeat writes nothing."""
    command = CloseThread(reason=reason)
    return await _submit_command(agent, agent.address(thread), command, request=request)


async def reopen(
    *, agent: Agent, thread: str, request: KeyedRequest | None = None
) -> OrderReceipt:
    """Accept agent writes again; a repeat writes nothing."""
    return await _submit_command(
        agent, agent.address(thread), ReopenThread(), request=request
    )


def _build_refusal(thread: Thread) -> Refusal:
    """Build the refusal of another subject's thread, in the journal's order."""
    if thread.status == Thread.Status.IMPORTING:
        return NotFoundError()
    if thread.subject.state in (Subject.State.ERASING, Subject.State.ERASED):
        return SubjectErasedError()
    if thread.subject.state == Subject.State.RESTRICTED:
        return SubjectRestrictedError()
    if thread.status in (Thread.Status.RETIRED, Thread.Status.ERASED):
        return ThreadErasedError()
    return SubjectConflictError()


async def _require_retention(
    agent: Agent, thread: str, idle_days: Any, *, made: bool = False
) -> None:
    """Raise InvalidError for idle days below the project's.

    An agent under prompt injection must not bring an erasure nearer. See decision 33.
    """
    if idle_days is not None:
        require = partial(projects.require_retention, made=made, bound=agent.bound)
        await read(require, agent.project, thread, idle_days)


async def _submit_command(
    agent: Agent,
    address: Address,
    command: Command,
    *,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Submit an agent's command."""
    return await journal.submit(
        Order(
            address=address,
            command=command,
            actor=agent.actor,
            if_match=if_match,
            request=request,
        )
    )
