"""The extractive observer: observations for a turn that no model has made in time.

Reading and observing happen before the turn's transaction, which takes the observations
that are still needed then. See decision 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Address, Order
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing import extractive, formulas, making
from memoryhub.kernel.observing.observing import (
    ActivateObservations,
    CreateObservation,
    CreateReflection,
)
from memoryhub.kernel.paging.page_commands import BeginTurn, NewObservation
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import ranges
from memoryhub.queries.observing.ranges import LogExcerpt, ObservationRange
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read

METHOD: Final = "extractive"
ACTOR: Final = "worker:observing"
#: Most observations made for one turn; a longer backlog continues with the next turn.
MAX_OBSERVATIONS: Final = 64


def add_observations(
    project: UUID, name: str, bound: UUID | None, command: BeginTurn
) -> BeginTurn:
    """Add to the command the observations that its turn may need.

    Two queries for 200 slots to observe, and those of a state.
    """
    thread = threads.get_thread(project, name, bound=bound)
    state, count = states.load_state(thread), tokenizers.get_for_thread(thread).count
    pieces = tuple(_iter_pieces(thread, state, count, command.slots))
    reflected = reflect_log(thread, state, count)
    epoch = state.observing.epoch
    return replace(command, observed=pieces, reflected=reflected, epoch=epoch)


def _iter_pieces(
    thread: Thread, state: ThreadState, count: Count, new: Sequence[NewSlot]
) -> Iterator[NewObservation]:
    """Iterate over observations until the rest is as small as after an activation."""
    settings = state.paging.settings
    left = formulas.count_uncovered_tokens(state) + sum(slot.tokens for slot in new)
    # No tool result is outstanding once a message of another role follows.
    closed = bool(new) and new[0].role != "tool"
    most, made = formulas.compute_cap(settings, None), 0
    for begin, end in ranges.list_unobserved(state):
        at: int | None = begin
        while at is not None and at < end and made < MAX_OBSERVATIONS:
            if left <= formulas.compute_keep(settings):
                return
            found = ranges.read_range(
                thread, state, at, end, most=most, count=count, closed=closed
            )
            at = found.end if found else None
            if found is not None:
                left -= formulas.compute_weight(found.raw, found.end - found.begin)
                made += 1
                yield observe_range(found, count)


def observe_range(
    found: ObservationRange, count: Count, *, most: int | None = None
) -> NewObservation:
    """Observe a range without a model, folded to `most` tokens."""
    body = ObservedBody(
        begin=found.begin, end=found.end, raw=found.raw, shown=0, method=METHOD
    )
    lines = extractive.observe(found.spoken, count=count)
    if most is not None:
        lines = extractive.reflect(lines, tokens=most, count=count)
    return making.build_observation(lines, body, sources=found.places, count=count)


def reflect_log(
    thread: Thread, state: ThreadState, count: Count
) -> NewObservation | None:
    """Fold the log to two thirds of its limit; None if the log is short.

    Two queries.
    """
    settings = state.paging.settings
    if (
        state.observing.log_tokens < formulas.compute_reflect_at(settings)
        or state.observing.ahead is not None
    ):
        return None
    found = ranges.read_log(thread, state)
    return (
        None
        if found is None
        else fold_log(found, formulas.compute_fold_to(settings), count)
    )


def fold_log(found: LogExcerpt, tokens: int, count: Count) -> NewObservation:
    """Fold entries of the log to a number of tokens."""
    entries = found.entries
    body = ObservedBody(
        begin=entries[0].begin,
        end=entries[-1].end,
        raw=sum(each.raw for each in entries),
        shown=0,
        method=METHOD,
        covers=[each.page_id for each in entries],
    )
    lines = extractive.reflect(found.lines, tokens=tokens, count=count)
    return making.build_observation(lines, body, sources=found.places, count=count)


async def relieve_log(
    project: UUID, name: str, bound: UUID | None, *, behind: bool = False
) -> bool:
    """Relieve a log beyond half of the window; return whether anything was done.

    An erasure restores everything that a reflection replaced, which may exceed the
    room in requests. Fills the log's gaps and folds the log to half of its limit,
    one order for each gap and one more. Emits page.created each, log.reflected
    last. With `behind`, if more messages came in bulk than a request holds, the
    thread is observed until the rest fits, or for `MAX_OBSERVATIONS` orders: then
    the turn names what is left out.
    """
    relieved = False
    for number in range(MAX_OBSERVATIONS):
        step = partial(_build_relief_order, behind=behind, begins=number == 0)
        try:
            order = await read(step, project, name, bound)
            if order is None:
                break
            await journal.submit(order)
        except Refusal:
            # The thread is gone, another process was quicker, or the log can't be
            # shorter.
            break
        relieved = True
    return relieved


def _build_relief_order(
    project: UUID, name: str, bound: UUID | None, *, behind: bool, begins: bool
) -> Order | None:
    """Build the next order that shortens the log or the backlog; None if done."""
    thread = threads.get_thread(project, name, bound=bound)
    epoch = thread.subject.epoch
    state, count = states.load_state(thread), tokenizers.get_for_thread(thread).count
    settings, seen = state.paging.settings, state.observing
    if not settings.observe:
        return None
    command: CreateObservation | CreateReflection | ActivateObservations | None
    if formulas.compute_log_room(state) >= 0:
        far = formulas.count_uncovered_tokens(state) > formulas.compute_window(settings)
        command = None
        if behind and (far or not begins) and formulas.is_due(state):
            command = _build_next_step(thread, state, count)
        if command is None:
            return None
    elif gap := next(
        (each for each in seen.list_gaps() if each[1] <= seen.cursor), None
    ):
        most = formulas.compute_cap(settings, None)
        found = ranges.read_range(thread, state, *gap, most=most, count=count)
        made = found and observe_range(found, count)
        command = CreateObservation(made=made, epoch=seen.epoch)
    else:
        command = _build_folding(thread, state, count)
    address = Address(project=project, name=thread.name)
    return Order(address=address, command=command, actor=ACTOR, epoch=epoch)


def _build_next_step(
    thread: Thread, state: ThreadState, count: Count
) -> CreateObservation | CreateReflection | ActivateObservations | None:
    """Build the next command that brings the thread nearer to a complete request."""
    settings, seen = state.paging.settings, state.observing
    length = formulas.compute_reflect_at(settings)
    fits = formulas.find_activation_end(state) is not None
    if seen.log_tokens >= length or (seen.chunks and not fits):
        return _build_folding(thread, state, count)
    if seen.chunks:
        return ActivateObservations()
    # Take as much as the largest window holds, since each order has its price; but keep
    # unobserved what an activation keeps.
    most = min(
        formulas.MOST,
        formulas.count_unobserved_tokens(state) - formulas.compute_keep(settings),
    )
    for begin, end in ranges.list_unobserved(state):
        found = ranges.read_range(thread, state, begin, end, most=most, count=count)
        if found is not None:
            made = observe_range(
                found, count, most=max(1, formulas.compute_log_room(state) // 2)
            )
            return CreateObservation(made=made, epoch=seen.epoch)
    return None


def _build_folding(
    thread: Thread, state: ThreadState, count: Count
) -> CreateReflection:
    """Build the command that folds the log."""
    logged = ranges.read_log(thread, state)
    tokens = formulas.compute_fold_to(state.paging.settings)
    folded = logged and fold_log(logged, tokens, count)
    return CreateReflection(made=folded, epoch=state.observing.epoch)
