"""Onsets: since when a verdict holds on a thread. Never writes.

Computed from the counters that are stored with each turn at its begin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import orjson

from memoryhub.kernel.state.paging import REFAULT_TURNS
from memoryhub.kernel.state.state import DEFAULT_MAX_SLOTS
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import VERDICTS, VerdictCounters

#: Turns that are searched backwards.
LOOKED: int = 200

Counts = Mapping[str, int]
#: A turn, the seq of its begin, and the counters at its begin.
TurnMark = tuple[int, int, Counts]
#: Test of a verdict on counters, by the thresholds of a project.
VerdictTest = Callable[[VerdictCounters, Thresholds], bool]


class VerdictOnset(NamedTuple):
    """The turn in which a verdict began to hold, and its time; None before any turn."""

    at: datetime | None = None
    turn: int | None = None


def find_onsets(
    thread: Thread, flags: Collection[str], limits: Thresholds
) -> dict[str, VerdictOnset]:
    """Find since when each of these verdicts, which hold now, holds.

    A verdict that began more than `LOOKED` turns ago is dated to the first turn
    searched. At most four queries.
    """
    rows = Turn.objects.filter(thread_id=thread.id).order_by("-n")
    found = rows.values_list("n", "seq", "counters")[: LOOKED + 1]
    marks = [(n, seq, orjson.loads(counters)) for n, seq, counters in found]
    places = {
        flag: _find_begin(marks, partial(_is_met, holds, limits))
        for flag, holds in _HOLDS.items()
        if flag in flags
    }
    if "full" in flags:
        places["full"] = _find_filled(thread)
    times = _list_times(thread, places.values())
    return {
        flag: VerdictOnset(times.get(place[1]), place[0] or None)
        if place
        else VerdictOnset()
        for flag, place in places.items()
    }


def _find_begin(
    marks: Sequence[TurnMark], holds: Callable[[VerdictCounters], bool]
) -> tuple[int, int] | None:
    """Find turn and seq where the newest run of turns with a verdict begins.

    A mark holds the counters at the end of the turn before it.
    """
    if not marks:
        return None
    began = 0
    while began + 1 < len(marks) and holds(_build_counters(marks, began)):
        began += 1
    return marks[began][:2]


def _is_met(holds: VerdictTest, limits: Thresholds, counters: VerdictCounters) -> bool:
    return holds(counters, limits)


def _build_counters(marks: Sequence[TurnMark], place: int) -> VerdictCounters:
    """Build the counters that verdicts judge, as of a mark."""
    now, before = marks[place][2], place + REFAULT_TURNS
    then = marks[before][2] if before < len(marks) else {}
    return VerdictCounters(
        refaults=now.get("refaults", 0) - then.get("refaults", 0),
        exchanges=now.get("exchanges", 0),
        faulted_lately=now.get("exchanges.faulted_lately", 0),
        full=False,
        hits=now.get("hits", 0),
        misses=now.get("misses", 0),
        refused=now.get("refused", 0) - then.get("refused", 0),
    )


#: Verdicts by flag, except `full`: turns do not store how full a thread was.
_HOLDS: dict[str, VerdictTest] = {
    **{each.flag: each.holds for each in VERDICTS if each.flag != "full"},
    "refused": lambda counters, _: counters.refused > 0,
}


def _find_filled(thread: Thread) -> tuple[int, int] | None:
    """Find turn and seq of the message that made the thread over nine tenths full."""
    most = orjson.loads(thread.config).get("max_slots", DEFAULT_MAX_SLOTS)
    last = Slot.objects.filter(thread_id=thread.id, index=-(-most * 9 // 10) - 1)
    return last.values_list("turn", "seq").first()


def _list_times(
    thread: Thread, places: Iterable[tuple[int, int] | None]
) -> dict[int, datetime]:
    seqs = {place[1] for place in places if place}
    rows = Event.objects.filter(thread_id=thread.id, seq__in=seqs)
    return dict(rows.values_list("seq", "at")) if seqs else {}
