"""Choosing: which pages a request has room for, whole or cut.

Pure. Everything goes in when it fits; else what is worth most goes in first, and what
is small may still follow what was too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from memoryhub.kernel import costs, exchange
from memoryhub.kernel.contexts import Texts
from memoryhub.kernel.exchange import Shown
from memoryhub.kernel.json_text import in_string, quoted
from memoryhub.kernel.opened import Opened
from memoryhub.kernel.opened import text as text_at
from memoryhub.kernel.pages import Location
from memoryhub.kernel.tokens import Count, fitting

Place = Literal["system", "context", "exchange"]

#: Roles of messages that call tools, or are what these gave back.
CALLING = ("assistant", "tool")
#: A text is cut only if more tokens than this are left for it.
LEAST_CUT = 50


class Candidate(NamedTuple):
    """A page that may stand in a request, at the level it is mapped."""

    page_id: str
    level: int
    location: Location
    version: int
    #: As `costs.cost` tells it.
    cost: int
    #: The keep score: the higher, the sooner it is taken.
    keep: float = 0.0
    pinned: bool = False
    slot: int | None = None
    role: str | None = None
    importance: float = 0.5
    #: It was fetched back after it had left.
    recalled: bool = False
    #: Of a message below FULL: where it lies as it was said, which tells a call of our
    #: own tools from others.
    full: Location | None = None


class Choice(NamedTuple):
    """A page in a request; of a text only `cut` characters, unless that is None."""

    candidate: Candidate
    place: Place
    cut: int | None = None


def choose(
    offered: Sequence[Choice], *, room: int, texts: Texts, count: Count
) -> list[Choice]:
    """Those of `offered` that `room` tokens hold, in the order they came.

    One pass; no text is counted but one that is cut.
    """
    if sum(each.candidate.cost for each in offered) <= room:
        return list(offered)
    taken = dict[int, Choice]()
    for index in sorted(range(len(offered)), key=lambda n: _worth(offered[n], n)):
        each, spent = offered[index], offered[index].candidate.cost
        if spent > room:
            each, spent = _cut(each, room, texts, count)
        if spent:
            taken[index] = each
            room -= spent
    return [taken[index] for index in sorted(taken)]


def newest(
    forms: Sequence[Candidate], *, room: int, least: int, texts: Texts, count: Count
) -> tuple[Choice, int] | None:
    """The newest slot in its most faithful form that fits, and what that takes.

    If none does, the most faithful text is cut, given more than `least` tokens.
    """
    for form in forms:
        if form.cost <= room:
            return Choice(form, "exchange"), form.cost
    for form in forms:
        choice = Choice(form, "exchange")
        choice, spent = _cut(choice, room, texts, count, least=least)
        if spent:
            return choice, spent
    return None


def own_tools(candidates: Sequence[Candidate], texts: Texts) -> set[str]:
    """Ids of pages that are calls of our own tools, or their results."""
    slots = [
        (each, opened)
        for each in candidates
        if each.role in CALLING
        # What was erased since is no more than the text that is left of it.
        and (opened := texts.get(each.full or each.location)) is not None
    ]
    found, calls = set[str](), set[str]()
    for each, opened in slots:
        ids = exchange.own_calls(opened) if each.role == "assistant" else None
        if ids is not None:
            found.add(each.page_id)
            calls |= ids
    found.update(
        each.page_id
        for each, opened in slots
        if each.role == "tool" and exchange.own_result(opened, calls)
    )
    return found


def _worth(choice: Choice, index: int) -> tuple[bool, bool, float, int]:
    """Sorts the system prompt first, then pins, then by keep score, newest first."""
    page = choice.candidate
    return choice.place != "system", not page.pinned, -page.keep, -index


def _cut(
    choice: Choice, room: int, texts: Texts, count: Count, *, least: int = LEAST_CUT
) -> tuple[Choice, int]:
    """As much of a text as fits and what that takes; 0 when it is not to be cut."""
    page, opened = choice.candidate, texts[choice.candidate.location]
    text = text_at(opened, level=page.level)
    if text is None or room <= least:
        return choice, 0
    through = _escaped_once if _bare(choice.place, opened) else _escaped_twice
    frame = count(_written(choice, opened, 0))
    kept = fitting(text, room - frame, count=count, through=through)
    for shorter in _shorter(min(kept, len(text) - 1)):
        spent = count(_written(choice, opened, shorter))
        if spent <= room:
            return choice._replace(cut=shorter), spent
    return choice, 0


def _shorter(length: int) -> Iterator[int]:
    """`length` and ever less: what was counted in parts may differ as a whole."""
    while length > 0:
        yield length
        length = length * 15 // 16


def _written(choice: Choice, opened: Opened, cut: int) -> str:
    level = choice.candidate.level
    if choice.place == "system":
        return costs.prose(opened, level=level, cut=cut)
    if choice.place == "context":
        return costs.in_line(opened, level=level, cut=cut)
    return exchange.as_text(Shown(opened, level, cut, recalled=True)) + ","


def _bare(place: Place, opened: Opened) -> bool:
    """Whether the text stands in the request's JSON as itself, not within a line."""
    spoken = place == "exchange" and opened.role in ("user", "assistant")
    return place == "system" or spoken


def _escaped_once(text: str) -> str:
    return in_string(text)


def _escaped_twice(text: str) -> str:
    return in_string(quoted(text)[1:-1])
