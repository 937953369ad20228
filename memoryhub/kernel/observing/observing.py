"""Observing: observations are made, wait, and come into requests. Pure.

Verbs decide, participles fold. An observation is a page of type summary; how its making
folds is in `residency`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from memoryhub.kernel.paging import eviction, precedence, working_set
from memoryhub.kernel.paging.entries import place_body
from memoryhub.kernel.paging.page_commands import BeginTurn, NewObservation
from memoryhub.kernel.paging.precedence import USER
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.observing import Failing, ObserverRole, Observing
from memoryhub.kernel.state.observing_events import (
    Failure,
    LogReflected,
    ObservationsActivated,
    ObserverFailed,
    ObserverPaused,
    ObserverResumed,
)
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.kernel.state.state import ThreadState


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateObservation(Command):
    """Keep an observation of the slots behind those observed, or of a gap."""

    #: None: there are none that could be observed yet.
    made: NewObservation | None
    #: In which it was begun.
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReflection(Command):
    """Keep a reflection of the first observations of the log."""

    #: None: there are none.
    made: NewObservation | None
    epoch: int
    #: It comes into the log at once; else when that is long enough.
    now: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateObservations(Command):
    """Take those that wait into requests, as many as the next turn would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailObserver(Command):
    """Note that nothing came of asking a model."""

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
    """Begin nothing, and refuse what was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeObserver(Command):
    """Go on observing."""


def create_observation(
    decision: Decision, command: CreateObservation, pages: PageTable
) -> None:
    """Keep an observation. Emits page.created, and observer.paused for an agent's.

    It waits until it is activated; that of a gap in the log stands there at once.
    Raises StaleEpochError, RangeTakenError unless it begins where nothing is observed
    yet and ends no later, RangeOpenError where it would part calls from their results,
    LogFullError for a gap's that the log has no room for and that is no shorter than
    what it stands for, NothingToDoError without one.
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
    reach = state.observing.range_from(body.begin, state.slot_count)
    if reach is None or not body.begin < body.end <= reach:
        raise RangeTakenError(
            watermark=state.observing.watermark, epoch=state.observing.epoch
        )
    # A gap ends where an observation did.
    ends = body.end == reach < state.slot_count
    if not ends and not is_closed(state, body.end, pages):
        raise RangeOpenError
    if body.begin < state.observing.cursor:
        spoken = formulas.weight(body.raw, body.end - body.begin)
        # One that is shorter than what was said makes room, however long the log is:
        # after an erasure it may be too long, and is not condensed beyond a gap.
        if body.shown > formulas.log_room(state) and body.shown >= spoken:
            most = formulas.window(state.paging.settings) // 2
            raise LogFullError(max_log_tokens=most)
        _make_room(decision, state.observing.log_tokens + body.shown)
    _emit_created(decision, made, "obs")


def is_closed(state: ThreadState, end: int, pages: PageTable) -> bool:
    """Return whether no calls before that slot may have results behind it."""
    if end == 0:
        return True
    ends = end == state.slot_count
    page_id = slot_page_id(end - 1 if ends else end)
    tiers = (state.paging.frames.get(page_id), state.paging.hot.get(page_id))
    found = next((each.entry for each in tiers if each), None) or pages.entry(page_id)
    if found is None:
        # Calls of ours, which stand in no request, or erased: nothing is parted.
        return not ends
    return found.role not in ("assistant", "tool") if ends else found.role != "tool"


def create_reflection(
    decision: Decision, command: CreateReflection, pages: PageTable
) -> None:
    """Keep a reflection. Emits page.created; log.reflected if it is to stand at once.

    Raises StaleEpochError, LogChangedError unless the log begins with what it covers,
    NothingToDoError without one, for one that is no smaller than what it covers, and
    for one that is to wait where one waits.
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
    """Put the reflection that waits in the place of what it covers.

    Emits log.reflected, or nothing where none waits.
    """
    observing = decision.state.observing
    if observing.ahead is None:
        return
    after = observing.replaced()
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
            sources=[place_body(each, state.id) for each in made.sources] or None,
            mapped=False,
            observed=made.observed,
        ),
        made.payload,
    )


def activate(
    decision: Decision, command: ActivateObservations, pages: PageTable
) -> None:
    """Take what waits into requests. Emits observations.activated, or nothing.

    After page.evicted for each covered message, but the newest of the user and what is
    pinned; then log.reflected where the log is long enough for the one that waits.
    """
    if _activate(decision) and _is_long(decision.state):
        reflect(decision)


def _activate(decision: Decision) -> bool:
    """Whether anything was."""
    observing = decision.state.observing
    to = formulas.activated_to(decision.state)
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
    kept = precedence.list_kept_pages(state) | {*precedence.instructing(state)}
    for frame in state.paging.in_order():
        slot = frame.entry.slot
        if slot is not None and covered(slot) and frame.page_id not in kept:
            eviction.evict_covered(decision, frame)


def _make_room(decision: Decision, log_tokens: int) -> None:
    """Let go of what no longer fits beside a log of so many tokens."""
    settings = replace(decision.paging.settings, log_tokens=log_tokens)
    decision.goes_by(settings)
    eviction.shrink(decision)


def begin_turn(decision: Decision, command: BeginTurn, pages: PageTable) -> bool:
    """Bring into the request that begins what waits, and show all that is uncovered.

    Where nothing waits and there is no room, the observations that were made beforehand
    of the next slots are taken, by the extractive observer: a turn waits for no model.
    Emits page.created, page.evicted, observations.activated, log.reflected, page.mapped
    in this order. Returns whether messages are left out that nothing stands for. Raises
    ObservationsWantedError when it needs what nobody has made, or made of what was
    erased since.
    """
    if not decision.paging.settings.observe:
        # What stands in the log stays there, in the place of what it covers.
        return False
    made = _fresh(decision, command)
    if _is_long(decision.state):
        if made is None and decision.state.observing.ahead is None:
            raise ObservationsWantedError
        if command.reflected and made is not None:
            _try_reflection(decision, command.reflected)
        reflect(decision)
    _relieve(decision, made, pages)
    return not _show_uncovered(decision, pages)


def _fresh(decision: Decision, command: BeginTurn) -> tuple[NewObservation, ...] | None:
    """What was made for the turn; None if nobody did, or something was erased since."""
    stale = command.epoch != decision.state.observing.epoch
    if stale and (command.observed or command.reflected):
        return None
    return command.observed


def _relieve(
    decision: Decision, made: Sequence[NewObservation] | None, pages: PageTable
) -> None:
    """Put observations in the place of messages until there is room."""
    pieces = [*(made or ())]
    while formulas.is_due(decision.state):
        if decision.state.observing.chunks:
            if not _activate(decision):
                return
        elif made is None:
            raise ObservationsWantedError
        elif not _take(decision, pieces, pages):
            return


def _take(decision: Decision, pieces: list[NewObservation], pages: PageTable) -> bool:
    """Keep the first piece that nobody else has observed meanwhile, if there is one."""
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
    return state.observing.log_tokens >= formulas.reflect_at(state.paging.settings)


def _show_uncovered(decision: Decision, pages: PageTable) -> bool:
    """Map uncovered messages, the newest first; False if there is no room for all."""
    state, paging = decision.state, decision.paging
    ranges = state.observing.uncovered(state.slot_count)
    names = [slot_page_id(n) for begin, end in ranges for n in range(begin, end)]
    missing = [name for name in names if name not in paging.frames]
    hot = {name: paging.hot[name].entry for name in missing if name in paging.hot}
    # Calls of ours have no page, and what is erased has none any more.
    found = {**pages.entries([name for name in missing if name not in hot]), **hot}
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
    """Let other pages go for messages that nothing stands for.

    Whatever the rules say that pin pages for being new.
    """
    usable, last = decision.paging.settings.usable, precedence.uncovered(decision.state)
    for name in precedence.below(decision.state, precedence.SPOKEN):
        if decision.paging.used + tokens <= usable:
            return
        if name not in last and name in decision.paging.frames:
            eviction.evict(decision, decision.paging.frames[name], cause="pressure")


def fail(decision: Decision, command: FailObserver, pages: PageTable) -> None:
    """Note that nothing came of asking. Emits observer.failed.

    Raises StaleEpochError, RangeTakenError when somebody else was quicker: then nothing
    has failed.
    """
    observing = decision.state.observing
    _require_epoch(decision.state, command.epoch)
    taken = observing.range_from(command.begin, decision.state.slot_count) is None
    if command.role == "observer" and taken:
        raise RangeTakenError(watermark=observing.watermark, epoch=observing.epoch)
    before: Failing = getattr(observing, command.role)
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


def pause(decision: Decision, command: PauseObserver, pages: PageTable) -> None:
    """Begin nothing from here on. Emits observer.paused; what was begun is void."""
    decision.emit(ObserverPaused(by_hand=True))


def resume(decision: Decision, command: ResumeObserver, pages: PageTable) -> None:
    """Go on. Emits observer.resumed, or nothing where it goes on."""
    if decision.state.observing.paused:
        decision.emit(ObserverResumed())


def _require_epoch(state: ThreadState, epoch: int) -> None:
    if not state.paging.settings.observe:
        raise ObserverOffError
    if state.observing.epoch != epoch:
        raise StaleEpochError(epoch=state.observing.epoch)


def activated(state: ThreadState, event: ObservationsActivated) -> ThreadState:
    return _logged(state, state.observing.activated(event.to))


def reflected(state: ThreadState, event: LogReflected) -> ThreadState:
    return _logged(state, state.observing.replaced())


def _logged(state: ThreadState, observing: Observing) -> ThreadState:
    paging = state.paging.logging(observing.log_tokens)
    return state._replace(observing=observing, paging=paging)


def failed(state: ThreadState, event: ObserverFailed) -> ThreadState:
    seen = state.observing
    before: Failing = getattr(seen, event.role)
    failing = Failing(
        event.failures,
        event.retry_at,
        before.useless + (event.failure != "no_model"),
        seen.log_tokens,
    )
    observing = seen.failed(event.role, failing).given_to(event.host)
    return state._replace(observing=observing)


def paused(state: ThreadState, event: ObserverPaused) -> ThreadState:
    observing = state.observing._replace(paused=True)
    if event.by_hand:
        observing = observing._replace(epoch=observing.epoch + 1)
    return state._replace(observing=observing)


def resumed(state: ThreadState, event: ObserverResumed) -> ThreadState:
    observing = state.observing._replace(
        paused=False, observer=Failing(), reflector=Failing()
    )
    return state._replace(observing=observing)


PART = Part(
    commands={
        CreateObservation: create_observation,
        CreateReflection: create_reflection,
        ActivateObservations: activate,
        FailObserver: fail,
        PauseObserver: pause,
        ResumeObserver: resume,
    },
    events={
        ObservationsActivated: activated,
        LogReflected: reflected,
        ObserverFailed: failed,
        ObserverPaused: paused,
        ObserverResumed: resumed,
    },
)
