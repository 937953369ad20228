"""Threads: created, forked, amended, closed, retired.

Pure. `decide_` functions decide commands, `apply_` functions fold events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from memoryhub.errors import (
    ForkTooDeepError,
    InvalidError,
    ScopeConflictError,
    SubjectConflictError,
    ThreadClosedError,
    ThreadErasedError,
)
from memoryhub.kernel.commands import (
    AmendThread,
    CloseThread,
    CreateThread,
    ForkThread,
    Refuse,
    ReopenThread,
    RetireThread,
)
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.forget import erasing
from memoryhub.kernel.paging.eviction import eviction, pins
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.events import (
    REPLAY_FORMAT,
    Label,
    LabelValue,
    ThreadClosed,
    ThreadConfig,
    ThreadConfigured,
    ThreadCreated,
    ThreadDescribed,
    ThreadForked,
    ThreadReopened,
    ThreadRetired,
)
from memoryhub.kernel.state.paging_config import (
    FIXED,
    PagingSettings,
    build_settings,
    check,
)
from memoryhub.kernel.state.state import (
    MAX_FORK_DEPTH,
    LineageSegment,
    ScopeLabels,
    ThreadState,
)

Labels = Mapping[str, LabelValue]
_FIXED = "what the thread was made with: it is fixed"


def decide_create_thread(
    decision: Decision, command: CreateThread, pages: PageTable
) -> None:
    """Make a new thread, or fill the fields an existing thread leaves open.

    Emits thread.created, or thread.described for scope levels newly set, or nothing.
    Raises ScopeConflictError and SubjectConflictError on a set value that differs.
    """
    state = decision.state
    if state.status == "new":
        config = _build_config(command.config)
        check(build_settings(config))
        decision.emit(
            ThreadCreated(
                subject=state.subject,
                config=config,
                replay_format=REPLAY_FORMAT,
                labels=_build_labels(command.labels or {}),
                home=command.home or None,
                **_list_levels(command.scope),
            )
        )
        return
    if command.subject not in (None, state.subject):
        raise SubjectConflictError
    _describe_thread(decision, command.scope, labels=None)


def _build_config(sent: ThreadConfig) -> ThreadConfig:
    """Build the config of a new thread; older journals have no blocks."""
    return sent.model_copy(update={"blocks": sent.blocks is not False})


def decide_fork_thread(
    decision: Decision, command: ForkThread, pages: PageTable
) -> None:
    """Make a thread that goes on from its parent's state.

    The decision begins with the state of `inherit_state`. Emits thread.forked,
    records.erased for records erased since, and evictions when the child's working set
    is smaller than the inherited pages. Raises ForkTooDeepError beyond 32 ancestors,
    PinBudgetError when inherited pins don't fit.
    """
    state = decision.state
    if state.depth > MAX_FORK_DEPTH:
        raise ForkTooDeepError(max_depth=MAX_FORK_DEPTH)
    config = _build_forked_config(state.config, command.config)
    settings = _build_settings(state, config)
    check(settings)
    pins.require_share(state.paging._replace(settings=settings))
    decision.emit(
        ThreadForked(
            subject=state.subject,
            parent=command.parent.id,
            parent_seq=command.parent.seq,
            parent_chain=command.parent_chain,
            depth=state.depth,
            config=config,
            replay_format=REPLAY_FORMAT,
            labels=_build_labels(command.labels or {}),
            **_list_levels(command.scope),
        )
    )
    erasing.erase_inherited(decision, command.erased, pages)
    # After the fork event, which begins the journal: seq 1 alone may be over the
    # budget.
    eviction.shrink(decision)


def _build_forked_config(parent: ThreadConfig, sent: ThreadConfig) -> ThreadConfig:
    """Build the child's config: the parent's, but for the fields that were sent.

    A null that was sent restores a default. Inherited pages keep their counts.
    """
    was = build_settings(parent)
    for name in FIXED:
        if getattr(sent, name) not in (None, getattr(was, name)):
            raise InvalidError(loc=f"config.{name}", allowed=_FIXED)
    changed = sent.model_fields_set.difference(FIXED)
    config = parent.model_copy(update={name: getattr(sent, name) for name in changed})
    return _build_config(config) if "blocks" in changed else config


def decide_amend_thread(
    decision: Decision, command: AmendThread, pages: PageTable
) -> None:
    """Fill scope levels, replace the labels, change limits and paging.

    Emits thread.described and thread.configured, each only for changed fields;
    evictions for a smaller working set come before thread.configured. Lowering a limit
    below what exists removes nothing: the thread is full. Raises PinBudgetError when
    pins would not fit.
    """
    state = decision.state
    labels = None if command.labels is None else _sort_labels(command.labels)
    _describe_thread(decision, command.scope, labels=labels)
    if command.config is None:
        return
    config = ThreadConfig(**{**state.config.model_dump(), **command.config})
    if config.blocks is None and "blocks" in command.config:
        config = config.model_copy(update={"blocks": True})
    if config == state.config:
        return
    for name in FIXED:
        if getattr(config, name) != getattr(state.config, name):
            raise InvalidError(loc=f"config.{name}", allowed=_FIXED)
    settings = _build_settings(state, config)
    check(settings)
    pins.require_share(state.paging._replace(settings=settings))
    decision.use_settings(settings)
    eviction.shrink(decision)
    # Last, so that no seq shows a working set beyond its bounds.
    decision.emit(ThreadConfigured(config=config))


def decide_close_thread(
    decision: Decision, command: CloseThread, pages: PageTable
) -> None:
    """Refuse agent writes from here on. Emits thread.closed; a repeat, nothing."""
    if decision.state.status == "open":
        decision.emit(ThreadClosed(reason=command.reason))


def decide_reopen_thread(
    decision: Decision, command: ReopenThread, pages: PageTable
) -> None:
    """Take agent writes again. Emits thread.reopened; a repeat, nothing."""
    if decision.state.status == "closed":
        decision.emit(ThreadReopened())


def decide_retire_thread(
    decision: Decision, command: RetireThread, pages: PageTable
) -> None:
    """End a thread whose retention period is over. Emits thread.retired."""
    decision.emit(
        ThreadRetired(
            policy_days=command.policy_days,
            idle_days=command.idle_days,
            last_active_seq=decision.state.active_seq,
        )
    )


def decide_refuse(decision: Decision, command: Refuse, pages: PageTable) -> None:
    """Raise the refusal met while making a command that was no repeat."""
    raise command.refusal


def require_open(state: ThreadState) -> None:
    """Raise unless an agent may write to the thread."""
    if state.status == "closed":
        raise ThreadClosedError
    require_alive(state)


def require_alive(state: ThreadState) -> None:
    if state.status in ("retired", "erased"):
        raise ThreadErasedError


def inherit_state(parent: ThreadState, child: ThreadState) -> ThreadState:
    """Return the state a fork starts from, before its thread.forked: all but identity.

    The lineage gains the run of slots that only the parent itself holds.
    """
    own = LineageSegment(
        thread=parent.id,
        first=parent.inherited,
        end=parent.slot_count,
        up_to_seq=parent.seq,
    )
    return parent._replace(
        id=child.id,
        seq=0,
        status="new",
        depth=parent.depth + 1,
        lineage=(*parent.lineage, own),
        inherited=parent.slot_count,
        active_seq=0,
    )


def apply_thread_created(state: ThreadState, event: ThreadCreated) -> ThreadState:
    born = state._replace(subject=event.subject, home=event.home is True)
    return _begin_thread(born, event)


def apply_thread_forked(state: ThreadState, event: ThreadForked) -> ThreadState:
    return _begin_thread(state, event)


def apply_thread_described(state: ThreadState, event: ThreadDescribed) -> ThreadState:
    scope = replace(state.scope, **_list_set_levels(event))
    if event.labels is None:
        return state._replace(scope=scope)
    return state._replace(scope=scope, labels=_to_pairs(event.labels))


def apply_thread_configured(state: ThreadState, event: ThreadConfigured) -> ThreadState:
    return _install_config(state, event.config)


def _build_settings(state: ThreadState, config: ThreadConfig) -> PagingSettings:
    """Build the settings; the agent's own tools and the last turn's blocks stay.

    The recall room promised in the last turn stays as well, unless the thread now asks
    for less.
    """
    own, before = state.paging.own_tools, state.paging.settings
    settings = build_settings(
        config,
        tools_tokens=own.tokens if own else 0,
        blocks_tokens=before.blocks_tokens,
        log_tokens=state.observing.log_tokens,
    )
    promised = min(before.promised_tokens, settings.promise)
    return replace(settings, promised_tokens=promised)


def _install_config(state: ThreadState, config: ThreadConfig) -> ThreadState:
    settings = _build_settings(state, config)
    tlb = state.paging.tlb.shrink(settings.tlb_entries)
    paging = state.paging._replace(settings=settings, tlb=tlb)
    return state._replace(config=config, paging=paging)


def apply_thread_closed(state: ThreadState, event: ThreadClosed) -> ThreadState:
    return state._replace(status="closed")


def apply_thread_reopened(state: ThreadState, event: ThreadReopened) -> ThreadState:
    return state._replace(status="open")


def apply_thread_retired(state: ThreadState, event: ThreadRetired) -> ThreadState:
    return state._replace(status="retired")


def _begin_thread(
    state: ThreadState, event: ThreadCreated | ThreadForked
) -> ThreadState:
    return _install_config(state, event.config)._replace(
        status="open",
        scope=ScopeLabels(**_list_set_levels(event)),
        labels=_to_pairs(event.labels),
    )


def _describe_thread(
    decision: Decision, scope: ScopeLabels, *, labels: Labels | None
) -> None:
    state = decision.state
    wanted, current = _list_levels(scope), _list_levels(state.scope)
    for level, value in wanted.items():
        if value is not None and current[level] not in (None, value):
            raise ScopeConflictError(level=level)
    fresh = {level: value for level, value in wanted.items() if value != current[level]}
    fresh = {level: value for level, value in fresh.items() if value is not None}
    relabelled = labels is not None and tuple(labels.items()) != state.labels
    if fresh or relabelled:
        listed = _build_labels(labels) if labels is not None and relabelled else None
        decision.emit(ThreadDescribed(labels=listed, **fresh))


def _list_levels(scope: ScopeLabels) -> dict[str, str | None]:
    return {level.name: getattr(scope, level.name) for level in fields(ScopeLabels)}


def _list_set_levels(
    event: ThreadCreated | ThreadForked | ThreadDescribed,
) -> dict[str, str]:
    levels = {level.name: getattr(event, level.name) for level in fields(ScopeLabels)}
    return {level: value for level, value in levels.items() if value is not None}


def _sort_labels(labels: Labels) -> dict[str, LabelValue]:
    return dict(sorted(labels.items()))


def _build_labels(labels: Labels) -> list[Label]:
    return [Label(name=name, value=value) for name, value in sorted(labels.items())]


def _to_pairs(labels: list[Label]) -> tuple[tuple[str, LabelValue], ...]:
    return tuple((label.name, label.value) for label in labels)


PART = KernelPart(
    upkeep={
        CreateThread: decide_create_thread,
        ForkThread: decide_fork_thread,
        AmendThread: decide_amend_thread,
        CloseThread: decide_close_thread,
        ReopenThread: decide_reopen_thread,
        RetireThread: decide_retire_thread,
        Refuse: decide_refuse,
    },
    home=frozenset({Refuse}),
    events={
        ThreadCreated: apply_thread_created,
        ThreadForked: apply_thread_forked,
        ThreadDescribed: apply_thread_described,
        ThreadConfigured: apply_thread_configured,
        ThreadClosed: apply_thread_closed,
        ThreadReopened: apply_thread_reopened,
        ThreadRetired: apply_thread_retired,
    },
)
