"""The extractive observer: what was said in lines, without a model.

Pure. The same messages have the same lines, and each message is told by one at least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing.codes import codes, shorter
from memoryhub.kernel.observing.lines import (
    Line,
    condensed,
    folded,
    make_line,
    written,
)

#: Tokens that the lines may always have; else this share of what they tell.
_ALWAYS: Final = 200
_SHARE: Final = 5
#: Tokens that a line may have where there is no room for all, and codes of lines that
#: are folded.
_ROOMS: Final = (64, 32, 16)
_KEPT: Final = (0, 8, 24)


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
    #: Codes of all that it says and calls.
    codes: tuple[str, ...] = ()


def observe(spoken: Sequence[Spoken], *, count: Count) -> tuple[Line, ...]:
    """Tell slots that follow each other, in order, a fifth of their tokens long.

    Calls and their results are one line as long as nobody speaks; what went wrong in
    them has a line of its own beside it.
    """
    most = max(_ALWAYS, sum(each.tokens for each in spoken) // _SHARE)
    return _fitted(tuple(_lines(spoken)), most, count=count)


def reflect(lines: Iterable[Line], *, tokens: int, count: Count) -> tuple[Line, ...]:
    """Condense lines without a model: they are folded."""
    return _fitted(tuple(lines), tokens, count=count)


def _fitted(lines: Sequence[Line], tokens: int, *, count: Count) -> tuple[Line, ...]:
    """Lines in so many tokens: as they are, else with the most codes.

    First they are made shorter, then folded, and of what is folded codes may be kept.
    Of ways with as many codes the first, that has the longest lines, is taken.
    """
    if count(written(lines)) <= tokens:
        return tuple(lines)
    ways = list[tuple[Line, ...]]()
    for room in _ROOMS:
        short = [
            line._replace(text=shorter(line.text, room, count=count)) for line in lines
        ]
        ways += (folded(short, tokens, count=count, codes=kept) for kept in _KEPT)
    return max(ways, key=_worth)


def _worth(lines: Iterable[Line]) -> int:
    return len({code for line in lines for code in codes(line.text)})


def _lines(spoken: Sequence[Spoken]) -> Iterator[Line]:
    # Each code stands where it was said first; what was said comes before results.
    shown = {
        code
        for each in spoken
        if _kind(each) == "speech" or each.error
        for code in codes(each.text or "")
    }
    speech = [each for each in spoken if _kind(each) == "speech"]
    tools = [each for each in spoken if _kind(each) == "tools"]
    more = {each.index: list[str]() for each in spoken}
    for each in (*speech, *tools):
        more[each.index] += [code for code in each.codes if code not in shown]
        shown |= {*each.codes}
    for kind, run in groupby(spoken, key=_kind):
        slots = tuple(run)
        first, end, at = slots[0].index, slots[-1].index + 1, slots[0].at
        if kind == "erased":
            yield make_line(condensed(kind, first, end), first=first, end=end, at=at)
            continue
        if kind == "tools":
            yield make_line(_calls(slots, more), first=first, end=end, at=at)
        for each in slots:
            if kind == "speech" or each.error:
                yield _speech(each, more[each.index] if kind == "speech" else ())


def _kind(slot: Spoken) -> str:
    if slot.text is None:
        return "erased"
    return "tools" if slot.tools or slot.role == "tool" else "speech"


def _calls(slots: Sequence[Spoken], more: Mapping[int, Sequence[str]]) -> str:
    names = Counter(name for each in slots for name in each.tools)
    found = [code for each in slots for code in more[each.index]]
    if not names:
        return _with(f"tool ×{len(slots)}", found)
    counted = (f"{name} ×{times}" for name, times in names.items())
    return _with("tool " + ", ".join(counted), found)


def _speech(slot: Spoken, more: Sequence[str]) -> Line:
    return make_line(
        _with(f"{slot.role}{' error' if slot.error else ''}: {slot.text}", more),
        first=slot.index,
        end=slot.index + 1,
        mark="critical" if slot.error or slot.role == "user" else "medium",
        at=slot.at,
    )


def _with(text: str, codes: Sequence[str]) -> str:
    return f"{text} ({' '.join(codes)})" if codes else text
