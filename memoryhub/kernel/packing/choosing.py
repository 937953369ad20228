"""Choosing: which pages a request has room for, whole or cut.

Pure. Everything goes in when it fits; else what is worth most goes in first, and what
is small may still follow what was too large.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from memoryhub.kernel.levels import costs, own_calls
from memoryhub.kernel.levels.contexts import Kept, Texts
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.opened import text as text_at
from memoryhub.kernel.levels.tokens import Count, fitting
from memoryhub.kernel.messages.media import weights
from memoryhub.kernel.paging.precedence import HISTORY, Precedence
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.text.json_text import in_string, quoted

SectionName = Literal["system", "context", "history", "exchange"]
#: Sections whose pages stand in the head, not as messages.
HEAD = ("system", "context")

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
    #: What goes before it when not all can be shown.
    precedence: Precedence = HISTORY
    slot: int | None = None
    role: str | None = None
    importance: float = 0.5
    #: It was fetched back after it had left.
    recalled: bool = False
    #: Of a message below FULL: where it lies as it was said, which tells its role, and
    #: a call of our own tools from others.
    full: Location | None = None
    #: At which it was said; of what memory brought, at which that was.
    at: int = 0
    #: A result that is not mapped: its calls stand, so it is named without its text.
    stub: bool = False
    #: Of a part of its text: where it stands, in tokens, and in characters.
    tokens: tuple[int, int | None] | None = None
    part: tuple[int, int] | None = None
    #: As in `Ref`.
    due: bool = False

    @property
    def message_at(self) -> Location:
        """Return where a message lies as it was said."""
        return self.full or self.location


class Choice(NamedTuple):
    """A page in a request; of a text only `cut` characters, unless that is None."""

    candidate: Candidate
    place: SectionName
    cut: int | None = None
    #: As in `Ref`.
    kept: tuple[Kept, ...] = ()


class Unit(NamedTuple):
    """What is shown together or not at all, and the most that it takes."""

    choices: tuple[Choice, ...]
    cost: int
    #: What the working set gives to one that would show more of a result.
    mapped: int | None = None


#: Units that stand in a request, by their place among all that may.
Taken = Mapping[int, Unit]
#: What a choice is in a request, of which so many characters are kept; None for all.
Write = Callable[[Choice, Opened, int | None], str]


def choose(
    units: Sequence[Unit], *, room: int, shorten: Callable[[Unit, int, int], Unit]
) -> dict[int, Unit]:
    """Choose the units that `room` tokens hold.

    One pass; `shorten` cuts what does not fit, to cost 0 if too little would be left.
    It is told the room, and what of that takes no place of a mapped page: more than
    the working set has of a result is shown in that alone.
    """
    if sum(unit.cost for unit in units) <= room:
        return dict(enumerate(units))
    rest = sum(map(_mapped, units))
    taken = dict[int, Unit]()
    for index in _by_worth(units, range(len(units))):
        unit = units[index]
        rest -= _mapped(unit)
        free = room if unit.mapped is None else max(0, room - rest)
        if unit.cost > free:
            unit = shorten(unit, room, free)
        if unit.cost and unit.cost <= room:
            taken[index] = unit
            room -= unit.cost
    return taken


def _mapped(unit: Unit) -> int:
    return unit.cost if unit.mapped is None else unit.mapped


def more(
    units: Sequence[Unit],
    taken: Taken,
    *,
    room: int,
    count: Callable[[Unit], int],
    without: Collection[int] = (),
) -> list[int]:
    """Return units not shown whole that `room` more tokens hold, by true costs."""
    found = list[int]()
    left = [
        n
        for n, unit in enumerate(units)
        if taken.get(n) is not unit and n not in without
    ]
    for index in _by_worth(units, left):
        unit, shown = units[index], taken.get(index)
        needed = min(unit.cost, count(unit)) - (shown.cost if shown else 0)
        if needed <= room:
            found.append(index)
            room -= needed
    return found


def _by_worth(units: Sequence[Unit], places: Iterable[int]) -> list[int]:
    return sorted(
        places, key=lambda n: min(worth(each, n) for each in units[n].choices)
    )


def newest(
    forms: Sequence[Candidate],
    *,
    room: int,
    least: int,
    texts: Texts,
    count: Count,
    write: Write,
    cost: Callable[[Choice], int],
    shorten: Callable[[Choice, int, int], tuple[Choice, int]],
) -> tuple[Choice, int] | None:
    """Return the newest slot in its most faithful form that fits, and its cost.

    If none does, the most faithful text is cut, given more than `least` tokens.
    """
    for form in forms:
        choice = Choice(form, "exchange")
        if (spent := cost(choice)) <= room:
            return choice, spent
        opened = texts[form.location]
        text = text_at(opened, level=form.level)
        if text and has_media(choice, texts):
            # A picture makes way before any word does.
            choice = choice._replace(cut=len(text))
            if (spent := count(write(choice, opened, choice.cut))) <= room:
                return choice, spent
    for form in forms:
        choice, spent = shorten(Choice(form, "exchange"), room, least)
        if spent:
            return choice, spent
    return None


def own_tools(candidates: Sequence[Candidate], texts: Texts) -> set[str]:
    """Return the ids of pages that are calls of our own tools, or their results."""
    slots = [
        (each, opened)
        for each in candidates
        if each.role in CALLING
        # What was erased since is no more than the text that is left of it.
        and (opened := texts.get(each.message_at)) is not None
    ]
    found, calls = set[str](), set[str]()
    for each, opened in slots:
        ids = own_calls.ids(opened.message) if each.role == "assistant" else None
        if ids is not None:
            found.add(each.page_id)
            calls |= ids
    found.update(
        each.page_id
        for each, opened in slots
        if each.role == "tool" and own_calls.brings(opened.message, calls)
    )
    return found


def worth(choice: Choice, index: int) -> tuple[bool, Precedence, bool, float, int]:
    """Return a sort key: the system prompt, then precedence; history by keep score."""
    page = choice.candidate
    system = choice.place == "system"
    return not system, page.precedence, not page.pinned, -page.keep, -index


def shortened(
    choice: Choice,
    room: int,
    texts: Texts,
    count: Count,
    *,
    least: int = LEAST_CUT,
    write: Write,
) -> tuple[Choice, int]:
    """Cut a text to what fits, and return its cost; 0 when it may not be cut."""
    page, opened = choice.candidate, texts[choice.candidate.location]
    text = text_at(opened, level=page.level)
    if text is None or page.part or room <= least:
        return choice, 0
    frame = count(write(choice, opened, 0))
    through = _in_line if choice.place == "context" else in_string
    kept = fitting(text, room - frame, count=count, through=through)
    most = len(text) if has_media(choice, texts) else len(text) - 1
    for shorter in _shorter(min(kept, most)):
        spent = count(write(choice, opened, shorter))
        if spent <= room:
            return choice._replace(cut=shorter), spent
    return choice, 0


def brought(page: Candidate) -> bool:
    """Return whether memory brings a page, whoever said it once."""
    return page.recalled or page.slot is None or page.part is not None


def has_media(choice: Choice, texts: Texts) -> bool:
    """Return whether it shows pictures, sound, film or files as such."""
    opened = texts[choice.candidate.location]
    spoken = opened.slot is not None and choice.candidate.level == FULL
    return spoken and any(weights(opened.message))


def _shorter(length: int) -> Iterator[int]:
    """`length` and ever less: what was counted in parts may differ as a whole."""
    while length > 0:
        yield length
        length = length * 15 // 16


def head(choice: Choice, opened: Opened, cut: int | None = None) -> str:
    """Return a page as the head of a request has it, at its longest."""
    level, part = choice.candidate.level, choice.candidate.part
    if choice.place == "system":
        return costs.prose(opened, level=level, cut=cut)
    return costs.in_line(opened, level=level, cut=cut, part=part)


def _in_line(text: str) -> str:
    return in_string(quoted(text)[1:-1])
