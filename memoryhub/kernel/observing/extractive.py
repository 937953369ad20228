"""The extractive observer: lines about messages, made without a model.

Pure. Equal messages get equal lines, and at least one line covers each message.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing import sentences
from memoryhub.kernel.observing.codes import list_codes
from memoryhub.kernel.observing.lines import (
    Mark,
    ObservationLine,
    fold_lines,
    make_line,
    render_condensed,
    render_lines,
    weigh_log_line,
)

#: Tokens always allowed for the lines; above them, one part in `_SHARE` of the
#: messages' tokens.
_ALWAYS: Final = 200
_SHARE: Final = 5
#: Tokens per line, tried in order where there is no room for all, and numbers of codes
#: tried for folded lines.
_ROOMS: Final = (64, 32, 16)
_LASTING_ROOM: Final = 48
_KEPT: Final = (0, 16, 32, 48, 64)
_IN_CODES: Final = {sentences.RULE: 20, sentences.WISH: 18}
#: Later rules and wishes that a line is compared with for repetition.
_COMPARED: Final = 64
#: Most arguments of one tool that a line names.
_MOST_ARGUMENTS: Final = 16
#: Longest result, in characters, that a line shows as a call's outcome.
_LONGEST_OUTCOME: Final = 60


class ObservedSlot(NamedTuple):
    """A slot as an observer reads it."""

    index: int  # type: ignore[assignment]  # nobody looks for a field by its value
    role: str
    at: datetime | None
    #: Short or whole text of the slot; None once erased.
    text: str | None
    #: Tokens of the whole slot.
    tokens: int
    #: Names of the called tools, and the most telling argument of each call, or "".
    tools: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    error: bool = False
    #: Codes of the slot's texts and calls.
    codes: tuple[str, ...] = ()


def observe(
    spoken: Sequence[ObservedSlot], *, count: Count
) -> tuple[ObservationLine, ...]:
    """Return lines for adjacent slots, in order, in a fifth of the slots' tokens.

    Calls and their results make one line until the next speech; an error among them has
    its own line beside it.
    """
    most = max(_ALWAYS, sum(each.tokens for each in spoken) // _SHARE)
    return _fit_lines(tuple(_iter_lines(spoken)), most, count=count)


def reflect(
    lines: Iterable[ObservationLine], *, tokens: int, count: Count
) -> tuple[ObservationLine, ...]:
    """Condense lines without a model, by folding."""
    return _fit_lines(tuple(lines), tokens, count=count)


def _fit_lines(
    lines: Sequence[ObservationLine], tokens: int, *, count: Count
) -> tuple[ObservationLine, ...]:
    """Return lines in so many tokens: unchanged, shorter, or the least folded.

    Rules and wishes are shortened no further than to `_LASTING_ROOM`, and lose their
    less important sentences. Folded lines may keep codes, as many as give the greatest
    worth.
    """
    short = tuple(lines)
    if count(render_lines(short)) <= tokens:
        return short
    worth = _weigh_each(lines)
    for room in _ROOMS:
        short = tuple(
            _shorten_line(line, each, room, count)
            for line, each in zip(lines, worth, strict=True)
        )
        if count(render_lines(short)) <= tokens:
            return short
    worth_by_text = {line.text: each for line, each in zip(short, worth, strict=True)}
    ways = (
        fold_lines(short, tokens, count=count, codes=kept, worth=worth)
        for kept in _KEPT
    )
    return max(ways, key=lambda made: _sum_worth(made, worth_by_text))


def _weigh_each(lines: Sequence[ObservationLine]) -> list[int]:
    """Return how long each line will matter; repeated lines matter less.

    Rules and wishes are compared with the next `_COMPARED` ones: a line is repeated if
    a later one has all its words.
    """
    worth, later = (
        [weigh_log_line(line) for line in lines],
        deque[set[str]](maxlen=_COMPARED),
    )
    for at in reversed(range(len(lines))):
        if worth[at] >= sentences.LASTING:
            words = {*lines[at].text.casefold().split()}
            if any(words <= each for each in later):
                worth[at] = sentences.POLITE
            later.append(words)
    return worth


def _shorten_line(
    line: ObservationLine, worth: int, room: int, count: Count
) -> ObservationLine:
    only = sentences.POLITE
    if worth < only:
        # A folded line stands for others, and has only their codes.
        return line
    if worth >= sentences.LASTING:
        only, room = sentences.LASTING, max(room, _LASTING_ROOM)
    text = sentences.shorten_line(line.text, room, count=count, only=only)
    return line._replace(text=text)


def _sum_worth(
    lines: Sequence[ObservationLine], worth_by_text: Mapping[str, int]
) -> int:
    """Return the worth of lines in codes; `worth_by_text` has some texts' worth."""
    lasting = sum(_IN_CODES.get(worth_by_text.get(line.text, 0), 0) for line in lines)
    return lasting + len({code for line in lines for code in list_codes(line.text)})


def _iter_lines(spoken: Sequence[ObservedSlot]) -> Iterator[ObservationLine]:
    # Each code stands where it was said first; speech comes before results.
    shown = {
        code
        for each in spoken
        if _get_kind(each) == "speech" or each.error
        for code in list_codes(each.text or "")
    }
    speech = [each for each in spoken if _get_kind(each) == "speech"]
    tools = [each for each in spoken if _get_kind(each) == "tools"]
    more = {each.index: list[str]() for each in spoken}
    for each in (*speech, *tools):
        more[each.index] += [code for code in each.codes if code not in shown]
        shown |= {*each.codes}
    for kind, run in groupby(spoken, key=_get_kind):
        slots = tuple(run)
        first, end, at = slots[0].index, slots[-1].index + 1, slots[0].at
        if kind == "erased":
            yield make_line(
                render_condensed(kind, first, end), first=first, end=end, at=at
            )
            continue
        if kind == "tools":
            yield make_line(_render_calls(slots, more), first=first, end=end, at=at)
        for each in slots:
            if kind == "speech" or each.error:
                yield _build_speech_line(
                    each, more[each.index] if kind == "speech" else ()
                )


def _get_kind(slot: ObservedSlot) -> str:
    if slot.text is None:
        return "erased"
    return "tools" if slot.tools or slot.role == "tool" else "speech"


def _render_calls(
    slots: Sequence[ObservedSlot], more: Mapping[int, Sequence[str]]
) -> str:
    """Render calls by tool with their arguments, and the last outcome if short."""
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
    return _append_codes(text, found)


def _build_speech_line(slot: ObservedSlot, more: Sequence[str]) -> ObservationLine:
    text = f"{slot.role}{' error' if slot.error else ''}: {slot.text}"
    return make_line(
        _append_codes(text, more),
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


def _append_codes(text: str, codes: Sequence[str]) -> str:
    return f"{text} ({' '.join(codes)})" if codes else text
