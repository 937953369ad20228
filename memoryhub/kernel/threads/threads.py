"""Threads: made, forked, amended, closed, retired.

Pure. Verbs decide, participles fold.
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
from memoryhub.kernel.paging import eviction, pins
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.events import (
    REPLAY_FORMAT,
    Label,
    LabelValue,
    Limits,
    ThreadClosed,
    ThreadConfigured,
    ThreadCreated,
    ThreadDescribed,
    ThreadForked,
    ThreadReopened,
    ThreadRetired,
)
from memoryhub.kernel.state.paging_config import FIXED, Settings, check, settings_of
from memoryhub.kernel.state.state import (
    MAX_FORK_DEPTH,
    Scope,
    Segment,
    ThreadState,
)

Labels = Mapping[str, LabelValue]
_FIXED = "what the thread was made with: it is fixed"


def create(decision: Decision, command: CreateThread, pages: PageTable) -> None:
    """Make a new thread, or fill what an existing one leaves open.

    Emits thread.created, or thread.described for scope levels newly set, or nothing.
    Raises ScopeConflictError and SubjectConflictError on a set value that differs.
    """
    state = decision.state
    if state.status == "new":
        config = _born(command.config)
        check(settings_of(config))
        decision.emit(
            ThreadCreated(
                subject=state.subject,
                config=config,
                replay_format=REPLAY_FORMAT,
                labels=_listed(command.labels or {}),
                home=command.home or None,
                **_levels(command.scope),
            )
        )
        return
    if command.subject not in (None, state.subject):
        raise SubjectConflictError
    _describe(decision, command.scope, labels=None)


def _born(sent: Limits) -> Limits:
    """The config of a new thread; journals from before blocks do without them."""
    return sent.model_copy(update={"blocks": sent.blocks is not False})


def fork(decision: Decision, command: ForkThread, pages: PageTable) -> None:
    """Make a thread that goes on from its parent's state.

    The decision begins with the state of `inherit`. Emits thread.forked, records.erased
    for what is gone since, and evictions when the child's working set is smaller than
    what it inherits. Raises ForkTooDeepError beyond 32 ancestors, PinBudgetError when
    inherited pins don't fit.
    """
    state = decision.state
    if state.depth > MAX_FORK_DEPTH:
        raise ForkTooDeepError(max_depth=MAX_FORK_DEPTH)
    config = _forked_config(state.config, command.config)
    settings = _settings(state, config)
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
            labels=_listed(command.labels or {}),
            **_levels(command.scope),
        )
    )
    erasing.erase_inherited(decision, command.erased, pages)
    # After it, for a journal begins with its fork: seq 1 alone may be over the budget.
    eviction.shrink(decision)


def _forked_config(parent: Limits, sent: Limits) -> Limits:
    """The child's config; what it inherits is counted and weighed as it stays."""
    was = settings_of(parent)
    for name in FIXED:
        if getattr(sent, name) not in (None, getattr(was, name)):
            raise InvalidError(loc=f"config.{name}", allowed=_FIXED)
    kept = {name: getattr(parent, name) for name in FIXED}
    if sent.blocks is None:
        kept["blocks"] = parent.blocks
    return sent.model_copy(update=kept)


def amend(decision: Decision, command: AmendThread, pages: PageTable) -> None:
    """Fill scope levels, replace the labels, change limits and paging.

    Emits thread.described and thread.configured, each only for what changes, the latter
    after what a smaller working set has no room for. Lowering a limit below what exists
    removes nothing: the thread is full. Raises PinBudgetError when pins would not fit.
    """
    state = decision.state
    labels = None if command.labels is None else _sorted(command.labels)
    _describe(decision, command.scope, labels=labels)
    if command.config is None:
        return
    config = Limits(**{**state.config.model_dump(), **command.config})
    if config.blocks is None and "blocks" in command.config:
        config = config.model_copy(update={"blocks": True})
    if config == state.config:
        return
    for name in FIXED:
        if getattr(config, name) != getattr(state.config, name):
            raise InvalidError(loc=f"config.{name}", allowed=_FIXED)
    settings = _settings(state, config)
    check(settings)
    pins.require_share(state.paging._replace(settings=settings))
    decision.goes_by(settings)
    eviction.shrink(decision)
    # Last, so that no seq shows a working set beyond its bounds.
    decision.emit(ThreadConfigured(config=config))


def close(decision: Decision, command: CloseThread, pages: PageTable) -> None:
    """Refuse agent writes from here on. Emits thread.closed; a repeat, nothing."""
    if decision.state.status == "open":
        decision.emit(ThreadClosed(reason=command.reason))


def reopen(decision: Decision, command: ReopenThread, pages: PageTable) -> None:
    """Take agent writes again. Emits thread.reopened; a repeat, nothing."""
    if decision.state.status == "closed":
        decision.emit(ThreadReopened())


def retire(decision: Decision, command: RetireThread, pages: PageTable) -> None:
    """End a thread that its retention policy is done with. Emits thread.retired."""
    decision.emit(
        ThreadRetired(
            policy_days=command.policy_days,
            idle_days=command.idle_days,
            last_active_seq=decision.state.active_seq,
        )
    )


def refuse(decision: Decision, command: Refuse, pages: PageTable) -> None:
    """Raise what came of making a command that was no repeat."""
    raise command.refusal


def require_open(state: ThreadState) -> None:
    """Raise unless an agent may write to the thread."""
    if state.status == "closed":
        raise ThreadClosedError
    require_alive(state)


def require_alive(state: ThreadState) -> None:
    if state.status in ("retired", "erased"):
        raise ThreadErasedError


def inherit(parent: ThreadState, child: ThreadState) -> ThreadState:
    """Return what a fork starts from, before its thread.forked: all but the identity.

    The lineage gains the run of slots that only the parent itself holds.
    """
    own = Segment(
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


def created(state: ThreadState, event: ThreadCreated) -> ThreadState:
    born = state._replace(subject=event.subject, home=event.home is True)
    return _begun(born, event)


def forked(state: ThreadState, event: ThreadForked) -> ThreadState:
    return _begun(state, event)


def described(state: ThreadState, event: ThreadDescribed) -> ThreadState:
    scope = replace(state.scope, **_set_levels(event))
    if event.labels is None:
        return state._replace(scope=scope)
    return state._replace(scope=scope, labels=_pairs(event.labels))


def configured(state: ThreadState, event: ThreadConfigured) -> ThreadState:
    return _set_up(state, event.config)


def _settings(state: ThreadState, config: Limits) -> Settings:
    """The agent's own tools, and the blocks of the last turn, stay what they are.

    So does what the last turn promised to recall, unless less is asked for now.
    """
    own, before = state.paging.own_tools, state.paging.settings
    settings = settings_of(
        config,
        tools_tokens=own.tokens if own else 0,
        blocks_tokens=before.blocks_tokens,
        log_tokens=state.observing.log_tokens,
    )
    promised = min(before.promised_tokens, settings.promise)
    return replace(settings, promised_tokens=promised)


def _set_up(state: ThreadState, config: Limits) -> ThreadState:
    settings = _settings(state, config)
    tlb = state.paging.tlb.shrunk(settings.tlb_entries)
    paging = state.paging._replace(settings=settings, tlb=tlb)
    return state._replace(config=config, paging=paging)


def closed(state: ThreadState, event: ThreadClosed) -> ThreadState:
    return state._replace(status="closed")


def reopened(state: ThreadState, event: ThreadReopened) -> ThreadState:
    return state._replace(status="open")


def retired(state: ThreadState, event: ThreadRetired) -> ThreadState:
    return state._replace(status="retired")


def _begun(state: ThreadState, event: ThreadCreated | ThreadForked) -> ThreadState:
    return _set_up(state, event.config)._replace(
        status="open",
        scope=Scope(**_set_levels(event)),
        labels=_pairs(event.labels),
    )


def _describe(decision: Decision, scope: Scope, *, labels: Labels | None) -> None:
    state = decision.state
    wanted, current = _levels(scope), _levels(state.scope)
    for level, value in wanted.items():
        if value is not None and current[level] not in (None, value):
            raise ScopeConflictError(level=level)
    fresh = {level: value for level, value in wanted.items() if value != current[level]}
    fresh = {level: value for level, value in fresh.items() if value is not None}
    relabelled = labels is not None and tuple(labels.items()) != state.labels
    if fresh or relabelled:
        listed = _listed(labels) if labels is not None and relabelled else None
        decision.emit(ThreadDescribed(labels=listed, **fresh))


def _levels(scope: Scope) -> dict[str, str | None]:
    return {level.name: getattr(scope, level.name) for level in fields(Scope)}


def _set_levels(
    event: ThreadCreated | ThreadForked | ThreadDescribed,
) -> dict[str, str]:
    levels = {level.name: getattr(event, level.name) for level in fields(Scope)}
    return {level: value for level, value in levels.items() if value is not None}


def _sorted(labels: Labels) -> dict[str, LabelValue]:
    return dict(sorted(labels.items()))


def _listed(labels: Labels) -> list[Label]:
    return [Label(name=name, value=value) for name, value in sorted(labels.items())]


def _pairs(labels: list[Label]) -> tuple[tuple[str, LabelValue], ...]:
    return tuple((label.name, label.value) for label in labels)


PART = Part(
    upkeep={
        CreateThread: create,
        ForkThread: fork,
        AmendThread: amend,
        CloseThread: close,
        ReopenThread: reopen,
        RetireThread: retire,
        Refuse: refuse,
    },
    home=frozenset({Refuse}),
    events={
        ThreadCreated: created,
        ThreadForked: forked,
        ThreadDescribed: described,
        ThreadConfigured: configured,
        ThreadClosed: closed,
        ThreadReopened: reopened,
        ThreadRetired: retired,
    },
)
