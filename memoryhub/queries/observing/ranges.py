"""Ranges of slots that are to be observed, and the log, as observers read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoryhub.journal.writing import texts
from memoryhub.kernel.levels import log_lines
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing import formulas, lines, making
from memoryhub.kernel.observing.extractive import Spoken
from memoryhub.kernel.observing.lines import Line
from memoryhub.kernel.state.observing import Observation
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.slots import SlotLine

#: Slots that are read at once.
_BATCH = 200


class Range(NamedTuple):
    """Slots that follow each other, as an observer is given them."""

    begin: int
    end: int
    spoken: tuple[Spoken, ...]
    #: Where their texts lie; and their tokens, as they were said.
    places: tuple[Location, ...]
    raw: int


class Logged(NamedTuple):
    """Observations that follow each other, as a reflector is given them."""

    entries: tuple[Observation, ...]
    lines: tuple[Line, ...]
    places: tuple[Location, ...]


def list_open(state: ThreadState) -> list[tuple[int, int]]:
    """Return what is not observed yet, gaps first: from where, and up to where."""
    ahead = (state.observing.watermark, state.slot_count)
    return [each for each in (*state.observing.gaps(), ahead) if each[0] < each[1]]


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
) -> Range | None:
    """Read the slots of one observation that begins there, and ends there at most.

    None where none can end yet: one does not end between calls and their results, nor
    with the thread, unless it is `closed` by what is about to follow. `thread` comes
    with its subject; `whole` are messages as a model reads them. Two queries for 200
    slots.
    """
    kept = _choose(thread, state, begin, end, most=most, closed=closed)
    if kept is None:
        return None
    return Range(
        begin,
        kept[-1].index + 1,
        tuple(_spoken(line, count, whole=whole) for line in kept),
        _places(kept),
        sum(line.tokens for line in kept),
    )


def find_next(
    thread: Thread, state: ThreadState, *, model: int | None = None
) -> tuple[int, int] | None:
    """Return the range that is observed next, as `read_next` reads it.

    None where there is nothing yet. A query for 200 slots.
    """
    most = formulas.cap(state.paging.settings, model)
    for begin, end in list_open(state):
        kept = _choose(thread, state, begin, end, most=most, content=False)
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
) -> Range | None:
    """Read what is observed next; None where there is nothing yet.

    `model` is the window of the model that is asked, which reads messages `whole`.
    """
    most = formulas.cap(state.paging.settings, model)
    for begin, end in list_open(state):
        found = read_range(
            thread, state, begin, end, most=most, count=count, whole=whole
        )
        if found is not None:
            return found
    return None


def read_exactly(
    thread: Thread, begin: int, end: int
) -> tuple[tuple[Location, ...], int] | None:
    """Return where the texts of these slots lie, and their tokens; None without them.

    A query for each ancestor that is read.
    """
    if not 0 <= begin < end <= thread.slot_count:
        return None
    found = slots.get_slots(thread, range(begin, end), content=False)
    return _places(found), sum(line.tokens for line in found)


def read_log(thread: Thread, state: ThreadState) -> Logged | None:
    """Read the begin of the log up to a gap; None where there is none. Two queries."""
    entries, at = list[Observation](), 0
    for each in state.observing.log:
        if each.begin != at:
            break
        entries.append(each)
        at = each.end
    places = [Location(*state.place(each.clock), FULL) for each in entries]
    opened = texts.opened(thread, places)
    if not entries or any(place not in opened for place in places):
        return None
    logged = [
        line
        for each, place in zip(entries, places, strict=True)
        for line in lines.read_any(
            log_lines.without_hints(opened[place].content["text"]), each.begin, each.end
        )
    ]
    return Logged(tuple(entries), tuple(logged), tuple(places))


def _choose(
    thread: Thread,
    state: ThreadState,
    begin: int,
    end: int,
    *,
    most: int,
    content: bool = True,
    closed: bool = False,
) -> list[SlotLine] | None:
    """The slots of one observation that begins there; None where none can end yet."""
    found, total = list[SlotLine](), 0
    for line in _iter_slots(thread, begin, end, content=content):
        found.append(line)
        total += line.tokens
        if total > most and formulas.choose_end(
            begin, _sizes(found), most, all_of=False
        ):
            break
    every = begin + len(found) == end
    to = formulas.choose_end(
        begin, _sizes(found), most, all_of=every and end == state.slot_count
    )
    # A gap ends where an observation did.
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


def _places(found: Iterable[SlotLine]) -> tuple[Location, ...]:
    """Where their texts lie; what is erased is no source of anything."""
    there = (line for line in found if not line.erased)
    return tuple(Location(line.home, line.seq, FULL) for line in there)


def _sizes(found: list[SlotLine]) -> list[tuple[int, str | None]]:
    """Tokens and roles, as the kernel has them.

    Whether an erased one waits for results, nobody knows.
    """
    roles = ("assistant" if line.erased else line.role for line in found)
    return [(line.tokens, role) for line, role in zip(found, roles, strict=True)]


def _spoken(line: SlotLine, count: Count, *, whole: bool) -> Spoken:
    at = line.agent_at or line.at
    if line.erased:
        return making.erased(line.index, line.role, at, tokens=line.tokens)
    return making.spoken(
        line.index,
        line.role,
        at,
        line.content,
        tokens=line.tokens,
        count=None if whole else count,
    )
