"""Observing: commands and events of observations and the log. Pure.

An observation is a page of type summary; `residency` folds the creation of that page.
See decisions 63 and 89.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from memoryhub.errors import (
    LogChangedError,
    LogFullError,
    NothingToDoError,
    ObservationsWantedError,
    ObserverOffError,
    RangeOpenError,
    RangeTakenError,
    StaleEpochError,
)
from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.paging import working_set
from memoryhub.kernel.paging.entries import build_place_body
from memoryhub.kernel.paging.eviction import eviction, precedence
from memoryhub.kernel.paging.eviction.precedence import USER
from memoryhub.kernel.paging.page_commands import BeginTurn, NewObservation
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.observing import (
    FailureStreak,
    ObserverRole,
    Observing,
    OwnInstructions,
)
from memoryhub.kernel.state.observing_events import (
    Failure,
    LogReflected,
    ObservationsActivated,
    ObserverFailed,
    ObserverInstructed,
    ObserverPaused,
    ObserverResumed,
)
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateObservation(Command):
    """Store an observation of the next unobserved slots, or of a gap in the log."""

    #: The observation; None if no slots could be observed yet.
    made: NewObservation | None
    #: Epoch in which the observation was begun.
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReflection(Command):
    """Store a reflection of the first observations of the log."""

    #: The reflection; None if there are no observations.
    made: NewObservation | None
    epoch: int
    #: True: the reflection replaces its observations at once; else when the log is
    #: long.
    now: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateObservations(Command):
    """Put waiting observations into requests, as many as the next turn would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailObserver(Command):
    """Record that a call of a model gave no observation."""

    role: ObserverRole
    begin: int
    end: int
    epoch: int
    failure: Failure
    retry_at: datetime
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseObserver(Command):
    """Pause the observer: begin no observation, and refuse those begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeObserver(Command):
    """Resume observing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructObservers(Command):
    """Set the thread's own instructions to observer, reflector or both."""

    #: Texts by role; an empty text is no instructions, None the project's.
    texts: Mapping[ObserverRole, str | None]


def decide_create_observation(
    decision: Decision, command: CreateObservation, pages: PageTable
) -> None:
    """Store an observation. Emits page.created, and observer.paused for an agent's.

    The observation waits until it is activated; one of a gap in the log stands there at
    once. Raises StaleEpochError. Raises RangeTakenError unless the observation begins
    at the first unobserved slot, or at a gap, and ends within the range. Raises
    RangeOpenError where it would part calls from their results. Raises LogFullError for
    a gap's observation that the log has no room for and that is no shorter than its
    messages. Raises NothingToDoError without an observation.
    """
    _require_epoch(decision.state, command.epoch)
    if command.made is None:
        raise NothingToDoError
    if command.made.observed.method == "agent" and not decision.state.observing.paused:
        decision.emit(ObserverPaused(by_hand=False))
    _keep_observation(decision, command.made, pages)


def _keep_observation(
    decision: Decision, made: NewObservation, pages: PageTable
) -> None:
    state, body = decision.state, made.observed
    reach = state.observing.find_range_end(body.begin, state.slot_count)
    if reach is None or not body.begin < body.end <= reach:
        raise RangeTakenError(
            watermark=state.observing.watermark, epoch=state.observing.epoch
        )
    # A gap ends where an erased observation ended: no call is open there.
    ends = body.end == reach < state.slot_count
    if not ends and not is_closed(state, body.end, pages):
        raise RangeOpenError
    if body.begin < state.observing.cursor:
        spoken = formulas.compute_weight(body.raw, body.end - body.begin)
        # An observation shorter than its messages makes room, however long the log is:
        # after an erasure the log may be too long, and it is not condensed beyond a
        # gap.
        if body.shown > formulas.compute_log_room(state) and body.shown >= spoken:
            most = formulas.compute_window(state.paging.settings) // 2
            raise LogFullError(max_log_tokens=most)
        _make_room(decision, state.observing.log_tokens + body.shown)
    _emit_created(decision, made, "obs")


def is_closed(state: ThreadState, end: int, pages: PageTable) -> bool:
    """Return whether no call before slot `end` may have results behind it."""
    if end == 0:
        return True
    ends = end == state.slot_count
    page_id = build_slot_page_id(end - 1 if ends else end)
    tiers = (state.paging.frames.get(page_id), state.paging.hot.get(page_id))
    found = next((each.entry for each in tiers if each), None) or pages.find_entry(
        page_id
    )
    if found is None:
        # No page: calls of our own tools, which stand in no request, or an erased slot.
        return not ends
    return found.role not in ("assistant", "tool") if ends else found.role != "tool"


def decide_create_reflection(
    decision: Decision, command: CreateReflection, pages: PageTable
) -> None:
    """Store a reflection. Emits page.created; log.reflected if it is to stand at once.

    Raises StaleEpochError. Raises LogChangedError unless the log begins with the
    observations that the reflection covers. Raises NothingToDoError without a
    reflection, for one no smaller than the observations it covers, and for one that is
    to wait while another waits.
    """
    _require_epoch(decision.state, command.epoch)
    waits = decision.state.observing.ahead is not None and not command.now
    if command.made is None or waits:
        raise NothingToDoError
    _keep_reflection(decision, command.made)
    if command.now:
        reflect(decision)


def _keep_reflection(decision: Decision, made: NewObservation) -> None:
    observing, covers = decision.state.observing, made.observed.covers or []
    read = observing.log[: len(covers)]
    whole = all(one.end == two.begin for one, two in pairwise(read))
    if not read or not whole or [each.page_id for each in read] != covers:
        raise LogChangedError(generation=observing.generation, epoch=observing.epoch)
    if made.observed.shown >= sum(each.tokens for each in read):
        raise NothingToDoError
    _emit_created(decision, made, "ref")


def reflect(decision: Decision) -> None:
    """Put the waiting reflection in the place of the observations it covers.

    Emits log.reflected, or nothing if no reflection waits.
    """
    observing = decision.state.observing
    if observing.ahead is None:
        return
    after = observing.replace_reflected()
    decision.emit(
        LogReflected(
            page_id=observing.ahead.page_id,
            generation=after.generation,
            replaced=len(observing.ahead.covers),
            log_before=observing.log_tokens,
            log_tokens=after.log_tokens,
        )
    )


def _emit_created(decision: Decision, made: NewObservation, kind: str) -> None:
    state = decision.state
    decision.emit(
        PageCreated(
            turn=decision.turn,
            cause="observed",
            by="tool" if made.observed.method == "agent" else "system",
            page_id=f"{kind}-{state.clock + 1}",
            type="summary",
            modality="text",
            tokens=made.tokens,
            cost=made.cost,
            bytes=made.bytes,
            importance=0.9,
            sources=[build_place_body(each, state.id) for each in made.sources] or None,
            mapped=False,
            observed=made.observed,
        ),
        made.payload,
    )


def decide_activate_observations(
    decision: Decision, command: ActivateObservations, pages: PageTable
) -> None:
    """Put waiting observations into requests. Emits observations.activated, or nothing.

    First emits page.evicted for each covered message, except the newest of the user and
    pinned pages. Then emits log.reflected if the log is long enough for the waiting
    reflection.
    """
    if _activate_chunks(decision) and _is_long(decision.state):
        reflect(decision)


def _activate_chunks(decision: Decision) -> bool:
    """Activate waiting chunks; return whether there were any."""
    observing = decision.state.observing
    to = formulas.find_activation_end(decision.state)
    if to is None:
        return False
    come = [each for each in observing.chunks if each.end <= to]
    _evict_covered(decision, lambda slot: any(a.begin <= slot < a.end for a in come))
    tokens = observing.log_tokens + sum(each.tokens for each in come)
    _make_room(decision, tokens)
    decision.emit(
        ObservationsActivated(
            turn=decision.turn, to=to, count=len(come), log_tokens=tokens
        )
    )
    return True


def _evict_covered(decision: Decision, covered: Callable[[int], bool]) -> None:
    state = decision.state
    kept = precedence.list_kept_pages(state) | {*precedence.list_instructing(state)}
    for frame in state.paging.list_in_context_order():
        slot = frame.entry.slot
        if slot is not None and covered(slot) and frame.page_id not in kept:
            eviction.evict_covered(decision, frame)


def _make_room(decision: Decision, log_tokens: int) -> None:
    """Evict pages that no longer fit beside a log of so many tokens."""
    settings = replace(decision.paging.settings, log_tokens=log_tokens)
    decision.use_settings(settings)
    eviction.shrink(decision)


def bring_observations(
    decision: Decision, command: BeginTurn, pages: PageTable
) -> bool:
    """Bring waiting observations into a turn's request; map all uncovered messages.

    If none waits and there is no room, the observations made beforehand of the next
    slots are taken, made by the extractive observer: a turn waits for no model. Emits
    page.created, page.evicted, observations.activated, log.reflected, page.mapped in
    this order. Returns whether uncovered messages are left out. Raises
    ObservationsWantedError when the turn needs observations that were not made, or were
    made from text erased since.
    """
    if not decision.paging.settings.observe:
        # The log keeps its observations, in the place of the messages they cover.
        return False
    made = _get_fresh(decision, command)
    if _is_long(decision.state):
        if made is None and decision.state.observing.ahead is None:
            raise ObservationsWantedError
        if command.reflected and made is not None:
            _try_reflection(decision, command.reflected)
        reflect(decision)
    _relieve_pressure(decision, made, pages)
    return not _show_uncovered(decision, pages)


def _get_fresh(
    decision: Decision, command: BeginTurn
) -> tuple[NewObservation, ...] | None:
    """Return observations made for the turn; None if not made, or of an older epoch."""
    stale = command.epoch != decision.state.observing.epoch
    if stale and (command.observed or command.reflected):
        return None
    return command.observed


def _relieve_pressure(
    decision: Decision, made: Sequence[NewObservation] | None, pages: PageTable
) -> None:
    """Put observations in the place of messages until there is room."""
    pieces = [*(made or ())]
    while formulas.is_due(decision.state):
        if decision.state.observing.chunks:
            if not _activate_chunks(decision):
                return
        elif made is None:
            raise ObservationsWantedError
        elif not _keep_first_piece(decision, pieces, pages):
            return


def _keep_first_piece(
    decision: Decision, pieces: list[NewObservation], pages: PageTable
) -> bool:
    """Keep the first piece that is still allowed; return False if there is none."""
    while pieces:
        try:
            _keep_observation(decision, pieces.pop(0), pages)
        except (LogFullError, RangeTakenError, RangeOpenError):
            continue
        return True
    return False


def _try_reflection(decision: Decision, made: NewObservation) -> None:
    if decision.state.observing.ahead is not None:
        return
    try:
        _keep_reflection(decision, made)
    except (LogChangedError, NothingToDoError):
        return


def _is_long(state: ThreadState) -> bool:
    return state.observing.log_tokens >= formulas.compute_reflect_at(
        state.paging.settings
    )


def _show_uncovered(decision: Decision, pages: PageTable) -> bool:
    """Show uncovered messages, the newest first; return whether all found room."""
    state, paging = decision.state, decision.paging
    ranges = state.observing.list_uncovered(state.slot_count)
    names = [build_slot_page_id(n) for begin, end in ranges for n in range(begin, end)]
    missing = [name for name in names if name not in paging.frames]
    hot = {name: paging.hot[name].entry for name in missing if name in paging.hot}
    # Calls of our own tools have no page, and erased messages have none any more.
    found = {**pages.list_entries([name for name in missing if name not in hot]), **hot}
    _make_way(decision, sum(entry.full.cost for entry in found.values()))
    for name in reversed(missing):
        if (entry := found.get(name)) is not None:
            newest = (
                paging.last_user is not None and entry.slot == paging.last_user.slot
            )
            own = USER if newest else None
            working_set.map_entry(decision, entry, 0, cause="turn", own=own)
    left = {*names} - {name for name in missing if name not in found}
    return all(name in decision.paging.frames for name in left)


def _make_way(decision: Decision, tokens: int) -> None:
    """Evict other pages for uncovered messages, even those pinned for being new."""
    usable, last = (
        decision.paging.settings.usable,
        precedence.list_uncovered(decision.state),
    )
    for name in precedence.list_below(decision.state, precedence.SPOKEN):
        if decision.paging.used + tokens <= usable:
            return
        if name not in last and name in decision.paging.frames:
            eviction.evict(decision, decision.paging.frames[name], cause="pressure")


def decide_fail_observer(
    decision: Decision, command: FailObserver, pages: PageTable
) -> None:
    """Record that a call of a model failed. Emits observer.failed.

    Raises StaleEpochError. Raises RangeTakenError if the range has been observed since:
    then nothing has failed.
    """
    observing = decision.state.observing
    _require_epoch(decision.state, command.epoch)
    taken = observing.find_range_end(command.begin, decision.state.slot_count) is None
    if command.role == "observer" and taken:
        raise RangeTakenError(watermark=observing.watermark, epoch=observing.epoch)
    before: FailureStreak = getattr(observing, command.role)
    decision.emit(
        ObserverFailed(
            role=command.role,
            begin=command.begin,
            end=command.end,
            failure=command.failure,
            failures=before.times + 1,
            retry_at=command.retry_at,
            tokens_in=command.tokens_in,
            tokens_out=command.tokens_out,
            cost=command.cost,
            host=command.host,
        )
    )


def decide_pause_observer(
    decision: Decision, command: PauseObserver, pages: PageTable
) -> None:
    """Pause the observer. Emits observer.paused; work already begun becomes void."""
    decision.emit(ObserverPaused(by_hand=True))


def decide_resume_observer(
    decision: Decision, command: ResumeObserver, pages: PageTable
) -> None:
    """Resume observing. Emits observer.resumed, or nothing if not paused."""
    if decision.state.observing.paused:
        decision.emit(ObserverResumed())


def decide_instruct_observers(
    decision: Decision, command: InstructObservers, pages: PageTable
) -> None:
    """Keep the texts. Emits observer.instructed for each role whose text changes."""
    for role, text in command.texts.items():
        before = decision.state.observing.find_instructions(role)
        digest = None if text is None else pages.digest(text)
        if (before and before.digest) == digest:
            continue
        payload = strict_json.dump_stored({"text": text})
        event = ObserverInstructed(role=role, digest=digest, bytes=len(payload))
        decision.emit(event, payload)


def _require_epoch(state: ThreadState, epoch: int) -> None:
    if not state.paging.settings.observe:
        raise ObserverOffError
    if state.observing.epoch != epoch:
        raise StaleEpochError(epoch=state.observing.epoch)


def apply_observations_activated(
    state: ThreadState, event: ObservationsActivated
) -> ThreadState:
    return _set_log(state, state.observing.activate_until(event.to))


def apply_log_reflected(state: ThreadState, event: LogReflected) -> ThreadState:
    return _set_log(state, state.observing.replace_reflected())


def _set_log(state: ThreadState, observing: Observing) -> ThreadState:
    paging = state.paging.set_log_tokens(observing.log_tokens)
    return state._replace(observing=observing, paging=paging)


def apply_observer_failed(state: ThreadState, event: ObserverFailed) -> ThreadState:
    seen = state.observing
    before: FailureStreak = getattr(seen, event.role)
    failing = FailureStreak(
        event.failures,
        event.retry_at,
        before.useless + (event.failure != "no_model"),
        seen.log_tokens,
    )
    observing = seen.set_failing(event.role, failing).add_host(event.host)
    return state._replace(observing=observing)


def apply_observer_paused(state: ThreadState, event: ObserverPaused) -> ThreadState:
    observing = state.observing._replace(paused=True)
    if event.by_hand:
        observing = observing._replace(epoch=observing.epoch + 1)
    return state._replace(observing=observing)


def apply_observer_resumed(state: ThreadState, event: ObserverResumed) -> ThreadState:
    observing = state.observing._replace(
        paused=False, observer=FailureStreak(), reflector=FailureStreak()
    )
    return state._replace(observing=observing)


def apply_observer_instructed(
    state: ThreadState, event: ObserverInstructed
) -> ThreadState:
    own = None
    if event.digest is not None:
        own = OwnInstructions(event.role, state.clock + 1, event.digest)
    observing = state.observing.set_instructions(event.role, own)
    return state._replace(observing=observing)


PART = KernelPart(
    commands={
        CreateObservation: decide_create_observation,
        CreateReflection: decide_create_reflection,
        ActivateObservations: decide_activate_observations,
        FailObserver: decide_fail_observer,
        PauseObserver: decide_pause_observer,
        ResumeObserver: decide_resume_observer,
        InstructObservers: decide_instruct_observers,
    },
    events={
        ObservationsActivated: apply_observations_activated,
        LogReflected: apply_log_reflected,
        ObserverFailed: apply_observer_failed,
        ObserverPaused: apply_observer_paused,
        ObserverResumed: apply_observer_resumed,
        ObserverInstructed: apply_observer_instructed,
    },
)
