"""The extractive observer: what was said in lines, without a model.

Pure. The same messages have the same lines, and each message is told by one at least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing.lines import Line, condensed, folded, make_line

#: Tokens that the lines may always have; else this share of what they tell.
_ALWAYS: Final = 200
_SHARE: Final = 5


class Spoken(NamedTuple):
    """What a slot says."""

    index: int  # type: ignore[assignment]  # nobody looks for a field by its value
    role: str
    at: datetime | None
    #: Its level REFERENCE; None once it is erased.
    text: str | None
    #: Of the whole slot.
    tokens: int
    #: Names of what it calls.
    tools: tuple[str, ...] = ()
    error: bool = False


def observe(spoken: Sequence[Spoken], *, count: Count) -> tuple[Line, ...]:
    """Tell slots that follow each other, in order, a fifth of their tokens long.

    Calls and their results are one line as long as nobody speaks; what went wrong in
    them has a line of its own beside it.
    """
    most = max(_ALWAYS, sum(each.tokens for each in spoken) // _SHARE)
    return folded(_lines(spoken), most, count=count)


def reflect(lines: Iterable[Line], *, tokens: int, count: Count) -> tuple[Line, ...]:
    """Condense lines without a model: they are folded."""
    return folded(lines, tokens, count=count)


def _lines(spoken: Iterable[Spoken]) -> Iterator[Line]:
    for kind, run in groupby(spoken, key=_kind):
        slots = tuple(run)
        first, end, at = slots[0].index, slots[-1].index + 1, slots[0].at
        if kind == "erased":
            yield make_line(condensed(kind, first, end), first=first, end=end, at=at)
            continue
        if kind == "tools":
            yield make_line(_calls(slots), first=first, end=end, at=at)
        for each in slots:
            if kind == "speech" or each.error:
                yield _speech(each)


def _kind(slot: Spoken) -> str:
    if slot.text is None:
        return "erased"
    return "tools" if slot.tools or slot.role == "tool" else "speech"


def _calls(slots: Sequence[Spoken]) -> str:
    names = Counter(name for each in slots for name in each.tools)
    if not names:
        return f"tool ×{len(slots)}"
    return "tool " + ", ".join(f"{name} ×{times}" for name, times in names.items())


def _speech(slot: Spoken) -> Line:
    return make_line(
        f"{slot.role}{' error' if slot.error else ''}: {slot.text}",
        first=slot.index,
        end=slot.index + 1,
        mark="critical" if slot.error or slot.role == "user" else "medium",
        at=slot.at,
    )
