"""The extractive observer: what a turn needs that no model has made in time.

Reading and telling happen before the turn's transaction, which takes of it what is
still wanted then.
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
from memoryhub.kernel.levels.tokens import Count
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
from memoryhub.queries.observing.ranges import Logged, Range
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read

METHOD: Final = "extractive"
ACTOR: Final = "worker:observing"
#: Observations that are made for one turn; a thread with more behind it goes on with
#: the next.
MOST: Final = 64


def prepared(
    project: UUID, name: str, bound: UUID | None, command: BeginTurn
) -> BeginTurn:
    """Return the command with the observations that its turn may need.

    Two queries for 200 slots that are to be observed, and those of a state.
    """
    thread = threads.get_thread(project, name, bound=bound)
    state, count = states.state_of(thread), tokenizers.of(thread).count
    pieces = tuple(_iter_pieces(thread, state, count, command.slots))
    reflected = reflect(thread, state, count)
    epoch = state.observing.epoch
    return replace(command, observed=pieces, reflected=reflected, epoch=epoch)


def _iter_pieces(
    thread: Thread, state: ThreadState, count: Count, new: Sequence[NewSlot]
) -> Iterator[NewObservation]:
    """Observations until as much is left as an activation leaves."""
    settings = state.paging.settings
    left = formulas.uncovered(state) + sum(slot.tokens for slot in new)
    # No result of a tool is to come, once somebody else speaks.
    closed = bool(new) and new[0].role != "tool"
    most, made = formulas.cap(settings, None), 0
    for begin, end in ranges.list_open(state):
        at: int | None = begin
        while at is not None and at < end and made < MOST:
            if left <= formulas.keep(settings):
                return
            found = ranges.read_range(
                thread, state, at, end, most=most, count=count, closed=closed
            )
            at = found.end if found else None
            if found is not None:
                left -= formulas.weight(found.raw, found.end - found.begin)
                made += 1
                yield observe(found, count)


def observe(found: Range, count: Count, *, most: int | None = None) -> NewObservation:
    """Tell a range without a model, folded to `most` tokens."""
    body = ObservedBody(
        begin=found.begin, end=found.end, raw=found.raw, shown=0, method=METHOD
    )
    lines = extractive.observe(found.spoken, count=count)
    if most is not None:
        lines = extractive.reflect(lines, tokens=most, count=count)
    return making.made(lines, body, sources=found.places, count=count)


def reflect(thread: Thread, state: ThreadState, count: Count) -> NewObservation | None:
    """Fold the log to two thirds of what it may have; None if it is short.

    Two queries.
    """
    settings = state.paging.settings
    if (
        state.observing.log_tokens < formulas.reflect_at(settings)
        or state.observing.ahead is not None
    ):
        return None
    found = ranges.read_log(thread, state)
    return None if found is None else fold(found, formulas.fold_to(settings), count)


def fold(found: Logged, tokens: int, count: Count) -> NewObservation:
    """Fold entries of the log to so many tokens."""
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
    return making.made(lines, body, sources=found.places, count=count)


async def relieve(
    project: UUID, name: str, bound: UUID | None, *, behind: bool = False
) -> bool:
    """Condense a log that takes more than half of the window; False if there is none.

    An erasure brings back all that a reflection stood for, which may be more than
    requests have room for. Fills the log's gaps and folds it to half of its limit, in
    orders of its own, as many as it has gaps and one more. Emits page.created each,
    log.reflected last. A thread that is `behind` by more than a request holds, since
    messages came in bulk, is observed until the rest fits, or for `MOST` orders: then
    the turn names what it leaves out.
    """
    relieved = False
    for number in range(MOST):
        step = partial(_relief, behind=behind, begins=number == 0)
        try:
            order = await read(step, project, name, bound)
            if order is None:
                break
            await journal.submit(order)
        except Refusal:
            # It is gone, somebody was quicker, or it can't be any shorter.
            break
        relieved = True
    return relieved


def _relief(
    project: UUID, name: str, bound: UUID | None, *, behind: bool, begins: bool
) -> Order | None:
    thread = threads.get_thread(project, name, bound=bound)
    epoch = thread.subject.epoch
    state, count = states.state_of(thread), tokenizers.of(thread).count
    settings, seen = state.paging.settings, state.observing
    if not settings.observe:
        return None
    command: CreateObservation | CreateReflection | ActivateObservations | None
    if formulas.log_room(state) >= 0:
        far = formulas.uncovered(state) > formulas.window(settings)
        command = None
        if behind and (far or not begins) and formulas.is_due(state):
            command = _build_next_step(thread, state, count)
        if command is None:
            return None
    elif gap := next((each for each in seen.gaps() if each[1] <= seen.cursor), None):
        most = formulas.cap(settings, None)
        found = ranges.read_range(thread, state, *gap, most=most, count=count)
        made = found and observe(found, count)
        command = CreateObservation(made=made, epoch=seen.epoch)
    else:
        command = _build_folding(thread, state, count)
    address = Address(project=project, name=thread.name)
    return Order(address=address, command=command, actor=ACTOR, epoch=epoch)


def _build_next_step(
    thread: Thread, state: ThreadState, count: Count
) -> CreateObservation | CreateReflection | ActivateObservations | None:
    """Return what brings a thread nearer to a request that shows or tells all."""
    settings, seen = state.paging.settings, state.observing
    length = formulas.reflect_at(settings)
    fits = formulas.activated_to(state) is not None
    if seen.log_tokens >= length or (seen.chunks and not fits):
        return _build_folding(thread, state, count)
    if seen.chunks:
        return ActivateObservations()
    # As much at once as the largest window would take, since each order has its price;
    # but what an activation leaves stays as it was said.
    most = min(formulas.MOST, formulas.unobserved(state) - formulas.keep(settings))
    for begin, end in ranges.list_open(state):
        found = ranges.read_range(thread, state, begin, end, most=most, count=count)
        if found is not None:
            made = observe(found, count, most=max(1, formulas.log_room(state) // 2))
            return CreateObservation(made=made, epoch=seen.epoch)
    return None


def _build_folding(
    thread: Thread, state: ThreadState, count: Count
) -> CreateReflection:
    logged = ranges.read_log(thread, state)
    tokens = formulas.fold_to(state.paging.settings)
    folded = logged and fold(logged, tokens, count)
    return CreateReflection(made=folded, epoch=state.observing.epoch)
