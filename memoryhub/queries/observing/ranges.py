"""Ranges of slots to observe, and the log to reflect on, as models read both."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoryhub.journal import texts
from memoryhub.kernel.context import log_lines
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing import formulas, lines, making
from memoryhub.kernel.observing.extractive import ObservedSlot
from memoryhub.kernel.observing.lines import ObservationLine
from memoryhub.kernel.state.observing import Observation
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.slots import SlotLine

#: Slots per query.
_BATCH = 200


class ObservationRange(NamedTuple):
    """A range of slots, as an observer is given it."""

    begin: int
    end: int
    spoken: tuple[ObservedSlot, ...]
    #: Places of the slots' texts, and the sum of the slots' tokens.
    places: tuple[Location, ...]
    raw: int


class LogExcerpt(NamedTuple):
    """Adjacent observations of the log, as a reflector is given them."""

    entries: tuple[Observation, ...]
    lines: tuple[ObservationLine, ...]
    places: tuple[Location, ...]


class ReadTail(NamedTuple):
    """The newest lines of the log, as text, and the places of their observations."""

    text: str = ""
    places: tuple[Location, ...] = ()


def list_unobserved(state: ThreadState) -> list[tuple[int, int]]:
    """List the ranges [begin, end) of slots that are not observed yet, gaps first."""
    ahead = (state.observing.watermark, state.slot_count)
    return [each for each in (*state.observing.list_gaps(), ahead) if each[0] < each[1]]


def read_range(
    thread: Thread,
    state: ThreadState,
    begin: int,
    end: int,
    *,
    most: int,
    count: Count,
    whole: bool = False,
    closed: bool = False,
) -> ObservationRange | None:
    """Read the slots of one observation from `begin` on, up to `end` at most.

    None where no observation can end yet. An observation does not end between a call
    and its results, nor at the thread's last slot unless `closed`. `most` is in tokens.
    `thread` comes with its subject; with `whole`, messages are not shortened. Two
    queries for 200 slots.
    """
    kept = _choose_slots(thread, state, begin, end, most=most, closed=closed)
    if kept is None:
        return None
    return ObservationRange(
        begin,
        kept[-1].index + 1,
        tuple(_build_spoken(line, count, whole=whole) for line in kept),
        _list_places(kept),
        sum(line.tokens for line in kept),
    )


def find_next(
    thread: Thread, state: ThreadState, *, model: int | None = None
) -> tuple[int, int] | None:
    """Find the range to observe next, as `read_next` reads it.

    None without a range. One query for 200 slots.
    """
    most = formulas.compute_cap(state.paging.settings, model)
    for begin, end in list_unobserved(state):
        kept = _choose_slots(thread, state, begin, end, most=most, content=False)
        if kept is not None:
            return begin, kept[-1].index + 1
    return None


def read_next(
    thread: Thread,
    state: ThreadState,
    *,
    count: Count,
    model: int | None = None,
    whole: bool = False,
) -> ObservationRange | None:
    """Read the range to observe next; None without one.

    `model` is the window in tokens of the model, which reads messages `whole`.
    """
    most = formulas.compute_cap(state.paging.settings, model)
    for begin, end in list_unobserved(state):
        found = read_range(
            thread, state, begin, end, most=most, count=count, whole=whole
        )
        if found is not None:
            return found
    return None


def read_exactly(
    thread: Thread, begin: int, end: int
) -> tuple[tuple[Location, ...], int] | None:
    """Return the places of the texts of these slots, and the sum of their tokens.

    None for slots outside of the thread. One query for each ancestor that is read.
    """
    if not 0 <= begin < end <= thread.slot_count:
        return None
    found = slots.get_slots(thread, range(begin, end), content=False)
    return _list_places(found), sum(line.tokens for line in found)


def read_log(thread: Thread, state: ThreadState) -> LogExcerpt | None:
    """Read the log from its begin to its first gap; None if empty. Two queries."""
    entries, at = list[Observation](), 0
    for each in state.observing.log:
        if each.begin != at:
            break
        entries.append(each)
        at = each.end
    places = [Location(*state.locate_event(each.clock), FULL) for each in entries]
    opened = texts.open_texts(thread, places)
    if not entries or any(place not in opened for place in places):
        return None
    logged = [
        line
        for each, place in zip(entries, places, strict=True)
        for line in lines.read_any(
            log_lines.remove_hints(opened[place].content["text"]), each.begin, each.end
        )
    ]
    return LogExcerpt(tuple(entries), tuple(logged), tuple(places))


def read_tail(
    thread: Thread, state: ThreadState, begin: int, *, most: int, count: Count
) -> ReadTail:
    """Read the newest lines that were observed of slots before `begin`.

    At most `most` tokens, as the log renders them. Two queries.
    """
    seen, entries, total = state.observing, list[Observation](), 0
    for each in reversed((*seen.log, *seen.chunks)):
        if each.end <= begin and total < most:
            entries.insert(0, each)
            total += each.tokens
    places = [Location(*state.locate_event(each.clock), FULL) for each in entries]
    opened = texts.open_texts(thread, places)
    found = deque[ObservationLine]()
    used = list[Location]()
    for each, place in reversed([*zip(entries, places, strict=True)]):
        if place not in opened:
            continue
        text = log_lines.remove_hints(opened[place].content["text"])
        fits = True
        for line in reversed(lines.read_any(text, each.begin, each.end)):
            found.appendleft(line)
            if count(lines.render_lines(found)) > most:
                found.popleft()
                fits = False
                break
            used.append(place)
        if not fits:
            break
    return ReadTail(lines.render_lines(found), tuple(dict.fromkeys(used)))


def _choose_slots(
    thread: Thread,
    state: ThreadState,
    begin: int,
    end: int,
    *,
    most: int,
    content: bool = True,
    closed: bool = False,
) -> list[SlotLine] | None:
    """Choose the slots of one observation from `begin`; None if it cannot end yet."""
    found, total = list[SlotLine](), 0
    for line in _iter_slots(thread, begin, end, content=content):
        found.append(line)
        total += line.tokens
        if total > most and formulas.choose_end(
            begin, _list_sizes(found), most, all_of=False
        ):
            break
    every = begin + len(found) == end
    to = formulas.choose_end(
        begin, _list_sizes(found), most, all_of=every and end == state.slot_count
    )
    # A gap ends at the boundary of an observation, where a range may always end.
    ends = closed or end < state.slot_count
    if every and ends and (to is None or total <= most):
        to = end
    return None if to is None else found[: to - begin]


def _iter_slots(
    thread: Thread, begin: int, end: int, *, content: bool
) -> Iterator[SlotLine]:
    for start in range(begin, end, _BATCH):
        indexes = range(start, min(end, start + _BATCH))
        yield from slots.get_slots(thread, indexes, content=content)


def _list_places(found: Iterable[SlotLine]) -> tuple[Location, ...]:
    """List the places of slots' texts; leaves out erased and struck slots."""
    there = (line for line in found if line.is_shown)
    return tuple(Location(line.home, line.seq, FULL) for line in there)


def _list_sizes(found: list[SlotLine]) -> list[tuple[int, str | None]]:
    """List tokens and roles of slots for the kernel.

    An erased slot counts as the assistant's: whether it calls a tool is unknown.
    """
    roles = ("assistant" if line.erased else line.role for line in found)
    return [(line.tokens, role) for line, role in zip(found, roles, strict=True)]


def _build_spoken(line: SlotLine, count: Count, *, whole: bool) -> ObservedSlot:
    at = line.agent_at or line.at
    if not line.is_shown:
        return making.build_erased_slot(line.index, line.role, at, tokens=line.tokens)
    return making.build_observed_slot(
        line.index,
        line.role,
        at,
        line.content,
        tokens=line.tokens,
        count=None if whole else count,
    )
