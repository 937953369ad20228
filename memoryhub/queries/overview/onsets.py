"""Onsets: since when something is wrong with a thread. Never writes.

Told by what was counted when each turn began, which stands beside the turns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from memoryhub.kernel.state.paging import REFAULT_TURNS
from memoryhub.kernel.state.state import DEFAULT_MAX_SLOTS
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.verdicts import VERDICTS, Counters

#: Turns that are looked back through.
LOOKED: int = 200

Counts = Mapping[str, int]
#: A turn, the seq it began at, and what had been counted by then.
Mark = tuple[int, int, Counts]


class Onset(NamedTuple):
    """The turn in which it began, and when that turn did; None before any turn."""

    at: datetime | None = None
    turn: int | None = None


def find_onsets(thread: Thread, flags: Collection[str]) -> dict[str, Onset]:
    """Find since when each of these holds that hold now. At most four queries.

    Of what goes back further than `LOOKED` turns it is the first of these.
    """
    rows = Turn.objects.filter(thread_id=thread.id).order_by("-n")
    found = rows.values_list("n", "seq", "counters")[: LOOKED + 1]
    marks = [(n, seq, orjson.loads(counters)) for n, seq, counters in found]
    places = {
        flag: _began(marks, holds) for flag, holds in _HOLDS.items() if flag in flags
    }
    if "full" in flags:
        places["full"] = _filled(thread)
    times = _times(thread, places.values())
    return {
        flag: Onset(times.get(place[1]), place[0] or None) if place else Onset()
        for flag, place in places.items()
    }


def _began(
    marks: Sequence[Mark], holds: Callable[[Counters], bool]
) -> tuple[int, int] | None:
    """Turn and seq where the newest run begins in which a verdict holds.

    A mark tells how the turn before it ended; the one that goes on ends like this.
    """
    if not marks:
        return None
    began = 0
    while began + 1 < len(marks) and holds(_counters(marks, began)):
        began += 1
    return marks[began][:2]


def _counters(marks: Sequence[Mark], place: int) -> Counters:
    """What verdicts go by, as it had been counted at a mark."""
    now, before = marks[place][2], place + REFAULT_TURNS
    then = marks[before][2] if before < len(marks) else {}
    return Counters(
        refaults=now.get("refaults", 0) - then.get("refaults", 0),
        exchanges=now.get("exchanges", 0),
        faulted_lately=now.get("exchanges.faulted_lately", 0),
        full=False,
        hits=now.get("hits", 0),
        misses=now.get("misses", 0),
        refused=now.get("refused", 0) - then.get("refused", 0),
    )


#: Turns do not tell of how full a thread was, nor of hours.
_HOLDS: dict[str, Callable[[Counters], bool]] = {
    **{each.flag: each.holds for each in VERDICTS if each.flag != "full"},
    "refused": lambda counters: counters.refused > 0,
}


def _filled(thread: Thread) -> tuple[int, int] | None:
    """Turn and seq of the message that made it more than nine tenths full."""
    most = orjson.loads(thread.config).get("max_slots", DEFAULT_MAX_SLOTS)
    last = Slot.objects.filter(thread_id=thread.id, index=-(-most * 9 // 10) - 1)
    return last.values_list("turn", "seq").first()


def _times(
    thread: Thread, places: Iterable[tuple[int, int] | None]
) -> dict[int, datetime]:
    seqs = {place[1] for place in places if place}
    rows = Event.objects.filter(thread_id=thread.id, seq__in=seqs)
    return dict(rows.values_list("seq", "at")) if seqs else {}
