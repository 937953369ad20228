"""The extractive observer: what was said in lines, without a model.

Pure. The same messages have the same lines, and each message is told by one at least.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing import sentences
from memoryhub.kernel.observing.codes import codes
from memoryhub.kernel.observing.lines import (
    Line,
    Mark,
    condensed,
    folded,
    make_line,
    weigh,
    written,
)

#: Tokens that the lines may always have; else this share of what they tell.
_ALWAYS: Final = 200
_SHARE: Final = 5
#: Tokens that a line may have where there is no room for all, and codes of lines that
#: are folded.
_ROOMS: Final = (64, 32, 16)
_LASTING_ROOM: Final = 48
_KEPT: Final = (0, 16, 32, 48, 64)
_IN_CODES: Final = {sentences.RULE: 20, sentences.WISH: 18}
#: Rules and wishes behind one that may say it again.
_COMPARED: Final = 64
#: Arguments of one tool that a line names.
_MOST_ARGUMENTS: Final = 16
#: Characters of a result that says how a call came out.
_LONGEST_OUTCOME: Final = 60


class Spoken(NamedTuple):
    """What a slot says."""

    index: int  # type: ignore[assignment]  # nobody looks for a field by its value
    role: str
    at: datetime | None
    #: Its level REFERENCE; None once it is erased.
    text: str | None
    #: Of the whole slot.
    tokens: int
    #: Names of what it calls, and of each call the argument that tells most, or "".
    tools: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
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
    """Return lines in so many tokens: as they are, shorter, or the least folded.

    Rules and wishes are shortened no further than to `_LASTING_ROOM`, and lose what
    stands beside them. Of what is folded codes may be kept, as many as are worth it.
    """
    short = tuple(lines)
    if count(written(short)) <= tokens:
        return short
    worth = _weigh_each(lines)
    for room in _ROOMS:
        short = tuple(
            _shorten_line(line, each, room, count)
            for line, each in zip(lines, worth, strict=True)
        )
        if count(written(short)) <= tokens:
            return short
    worth_by_text = {line.text: each for line, each in zip(short, worth, strict=True)}
    ways = (
        folded(short, tokens, count=count, codes=kept, worth=worth) for kept in _KEPT
    )
    return max(ways, key=lambda made: _sum_worth(made, worth_by_text))


def _weigh_each(lines: Sequence[Line]) -> list[int]:
    """Return how long each line will matter: no longer where it is said again.

    Rules and wishes are compared with the next of them: all words of one stand in
    another.
    """
    worth, later = [weigh(line) for line in lines], deque[set[str]](maxlen=_COMPARED)
    for at in reversed(range(len(lines))):
        if worth[at] >= sentences.LASTING:
            words = {*lines[at].text.casefold().split()}
            if any(words <= each for each in later):
                worth[at] = sentences.POLITE
            later.append(words)
    return worth


def _shorten_line(line: Line, worth: int, room: int, count: Count) -> Line:
    only = sentences.POLITE
    if worth < only:
        # It stands for others, and its codes are all that is left of them.
        return line
    if worth >= sentences.LASTING:
        only, room = sentences.LASTING, max(room, _LASTING_ROOM)
    text = sentences.shorten_line(line.text, room, count=count, only=only)
    return line._replace(text=text)


def _sum_worth(lines: Sequence[Line], worth_by_text: Mapping[str, int]) -> int:
    """Return what lines are worth, in codes; `worth_by_text` has some."""
    lasting = sum(_IN_CODES.get(worth_by_text.get(line.text, 0), 0) for line in lines)
    return lasting + len({code for line in lines for code in codes(line.text)})


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
    """Tell calls by tool with their arguments, and how the last of them came out."""
    counted = Counter(name for each in slots for name in each.tools)
    arguments = {name: dict[str, None]() for name in counted}
    for each in slots:
        for name, argument in zip(each.tools, each.arguments, strict=False):
            if argument:
                arguments[name][argument] = None
    calls = [
        f"{name} ×{times}"
        + (f": {', '.join([*found][:_MOST_ARGUMENTS])}" if found else "")
        for (name, times), found in zip(
            counted.items(), arguments.values(), strict=True
        )
    ]
    text = "tool " + "; ".join(calls) if calls else f"tool ×{len(slots)}"
    results = [each.text for each in slots if each.role == "tool" and not each.error]
    if results and (last := results[-1]) and len(last) <= _LONGEST_OUTCOME:
        text += f" → {last}"
    found = [code for each in slots for code in more[each.index] if code not in text]
    return _with(text, found)


def _speech(slot: Spoken, more: Sequence[str]) -> Line:
    text = f"{slot.role}{' error' if slot.error else ''}: {slot.text}"
    return make_line(
        _with(text, more),
        first=slot.index,
        end=slot.index + 1,
        mark="critical" if slot.error else _choose_mark(slot.role, text),
        at=slot.at,
    )


def _choose_mark(role: str, text: str) -> Mark:
    worth = sentences.weigh_line(text)
    if worth <= sentences.POLITE:
        return "low"
    return "critical" if role == "user" else "medium"


def _with(text: str, codes: Sequence[str]) -> str:
    return f"{text} ({' '.join(codes)})" if codes else text
