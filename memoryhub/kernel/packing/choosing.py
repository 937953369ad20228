"""Choice of the pages that a request has room for, whole or cut.

Pure. Every page goes in when all fit; else the pages worth most go in first, and a
small page may follow where a larger one had no room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from memoryhub.kernel.context import costs
from memoryhub.kernel.context.contexts import KeptEnds, Texts
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.opened import get_text as text_at
from memoryhub.kernel.context.tokens import Count, count_fitting
from memoryhub.kernel.messages.media import iter_weights
from memoryhub.kernel.paging.eviction.precedence import HISTORY, Precedence
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.text.json_text import escape_for_string, quote_text
from memoryhub.kernel.tools import own_calls

SectionName = Literal["system", "context", "history", "exchange"]
#: Sections whose pages stand in the head, not as messages.
HEAD = ("system", "context")

#: Roles of messages that call tools, and of the tools' results.
CALLING = ("assistant", "tool")
#: A text is cut only if more tokens than this are left for it.
LEAST_CUT = 50


class Candidate(NamedTuple):
    """A page that may stand in a request, at its mapped level."""

    page_id: str
    level: int
    location: Location
    version: int
    #: Tokens, as `costs.compute_cost` counts them.
    cost: int
    #: The keep score: the packer takes pages with a higher score first.
    keep: float = 0.0
    pinned: bool = False
    #: Rank of the page when not all pages can be shown.
    precedence: Precedence = HISTORY
    slot: int | None = None
    role: str | None = None
    importance: float = 0.5
    #: Whether the page was fetched back after its eviction.
    recalled: bool = False
    #: For a message below FULL: location of the message as it was said. That text gives
    #: the role and tells calls of our tools from other calls.
    full: Location | None = None
    #: Clock at which the message was said; for a page from memory, clock at which
    #: memory brought the page.
    at: int = 0
    #: Whether this is an unmapped result whose call is shown: the request names the
    #: page without its text.
    stub: bool = False
    #: For a part of a text: range in tokens, and range in characters.
    tokens: tuple[int, int | None] | None = None
    part: tuple[int, int] | None = None
    #: Same meaning as `Ref.due`.
    due: bool = False

    @property
    def message_at(self) -> Location:
        """Return the location of the message as it was said."""
        return self.full or self.location


class Pick(NamedTuple):
    """A page chosen for a request; `cut` characters of its text, or all if None."""

    candidate: Candidate
    place: SectionName
    cut: int | None = None
    #: Same meaning as `Ref.kept`.
    kept: tuple[KeptEnds, ...] = ()


class Unit(NamedTuple):
    """Choices that are shown together or not at all, with their highest cost."""

    choices: tuple[Pick, ...]
    cost: int
    #: Tokens the working set gives to a unit that would show more of a result.
    mapped: int | None = None


#: Units in a request, by index among all units that may stand there.
Taken = Mapping[int, Unit]
#: Text of a choice in a request with that many characters kept; None keeps all.
Write = Callable[[Pick, OpenedPage, int | None], str]


def choose(
    units: Sequence[Unit], *, room: int, shorten: Callable[[Unit, int, int], Unit]
) -> dict[int, Unit]:
    """Choose the units that fit in `room` tokens.

    One pass. `shorten` cuts a unit that does not fit, to cost 0 if too little would be
    left. `shorten` receives the room, and the part of the room that no mapped page
    needs: a result may exceed its share of the working set only in that part.
    """
    if sum(unit.cost for unit in units) <= room:
        return dict(enumerate(units))
    rest = sum(map(_get_mapped_cost, units))
    taken = dict[int, Unit]()
    for index in _sort_by_worth(units, range(len(units))):
        unit = units[index]
        rest -= _get_mapped_cost(unit)
        free = room if unit.mapped is None else max(0, room - rest)
        if unit.cost > free:
            unit = shorten(unit, room, free)
        if unit.cost and unit.cost <= room:
            taken[index] = unit
            room -= unit.cost
    return taken


def _get_mapped_cost(unit: Unit) -> int:
    return unit.cost if unit.mapped is None else unit.mapped


def list_fitting_units(
    units: Sequence[Unit],
    taken: Taken,
    *,
    room: int,
    count: Callable[[Unit], int],
    without: Collection[int] = (),
) -> list[int]:
    """List units not shown whole that fit in `room` more tokens, by true costs."""
    found = list[int]()
    left = [
        n
        for n, unit in enumerate(units)
        if taken.get(n) is not unit and n not in without
    ]
    for index in _sort_by_worth(units, left):
        unit, shown = units[index], taken.get(index)
        needed = min(unit.cost, count(unit)) - (shown.cost if shown else 0)
        if needed <= room:
            found.append(index)
            room -= needed
    return found


def _sort_by_worth(units: Sequence[Unit], places: Iterable[int]) -> list[int]:
    return sorted(
        places, key=lambda n: min(build_worth_key(each, n) for each in units[n].choices)
    )


def fit_newest(
    forms: Sequence[Candidate],
    *,
    room: int,
    least: int,
    texts: Texts,
    count: Count,
    write: Write,
    cost: Callable[[Pick], int],
    shorten: Callable[[Pick, int, int], tuple[Pick, int]],
) -> tuple[Pick, int] | None:
    """Return the newest slot in its most faithful form that fits, and its cost.

    If no form fits, the most faithful text is cut to more than `least` tokens.
    """
    for form in forms:
        choice = Pick(form, "exchange")
        if (spent := cost(choice)) <= room:
            return choice, spent
        opened = texts[form.location]
        text = text_at(opened, level=form.level)
        if text and has_media(choice, texts):
            # A picture is dropped before any word.
            choice = choice._replace(cut=len(text))
            if (spent := count(write(choice, opened, choice.cut))) <= room:
                return choice, spent
    for form in forms:
        choice, spent = shorten(Pick(form, "exchange"), room, least)
        if spent:
            return choice, spent
    return None


def find_own_tool_pages(candidates: Sequence[Candidate], texts: Texts) -> set[str]:
    """Return the ids of pages that are calls of our own tools, or their results."""
    slots = [
        (each, opened)
        for each in candidates
        if each.role in CALLING
        # A slot erased since then has only its remaining text, no message.
        and (opened := texts.get(each.message_at)) is not None
    ]
    found, calls = set[str](), set[str]()
    for each, opened in slots:
        ids = (
            own_calls.list_own_call_ids(opened.message)
            if each.role == "assistant"
            else None
        )
        if ids is not None:
            found.add(each.page_id)
            calls |= ids
    found.update(
        each.page_id
        for each, opened in slots
        if each.role == "tool" and own_calls.has_own_result(opened.message, calls)
    )
    return found


def build_worth_key(
    choice: Pick, index: int
) -> tuple[bool, Precedence, bool, float, int]:
    """Return a sort key: the system prompt, then precedence; history by keep score."""
    page = choice.candidate
    system = choice.place == "system"
    return not system, page.precedence, not page.pinned, -page.keep, -index


def shorten_choice(
    choice: Pick,
    room: int,
    texts: Texts,
    count: Count,
    *,
    least: int = LEAST_CUT,
    write: Write,
) -> tuple[Pick, int]:
    """Cut a text to the room; return it and its cost, 0 if it may not be cut."""
    page, opened = choice.candidate, texts[choice.candidate.location]
    text = text_at(opened, level=page.level)
    if text is None or page.part or room <= least:
        return choice, 0
    frame = count(write(choice, opened, 0))
    through = _escape_line if choice.place == "context" else escape_for_string
    kept = count_fitting(text, room - frame, count=count, through=through)
    most = len(text) if has_media(choice, texts) else len(text) - 1
    for shorter in _iter_shorter_lengths(min(kept, most)):
        spent = count(write(choice, opened, shorter))
        if spent <= room:
            return choice._replace(cut=shorter), spent
    return choice, 0


def is_from_memory(page: Candidate) -> bool:
    """Return whether memory brings the page, whoever said its text first."""
    return page.recalled or page.slot is None or page.part is not None


def has_media(choice: Pick, texts: Texts) -> bool:
    """Return whether the choice shows pictures, sound, film or files as media."""
    opened = texts[choice.candidate.location]
    spoken = opened.slot is not None and choice.candidate.level == FULL
    return spoken and any(iter_weights(opened.message))


def _iter_shorter_lengths(length: int) -> Iterator[int]:
    """Yield `length` and ever smaller lengths.

    A text counted in parts may count differently as a whole.
    """
    while length > 0:
        yield length
        length = length * 15 // 16


def render_head_page(choice: Pick, opened: OpenedPage, cut: int | None = None) -> str:
    """Render a page as it stands in the head of a request, at its longest."""
    level, part = choice.candidate.level, choice.candidate.part
    if choice.place == "system":
        return costs.render_prose_json(opened, level=level, cut=cut)
    return costs.render_line_json(opened, level=level, cut=cut, part=part)


def _escape_line(text: str) -> str:
    return escape_for_string(quote_text(text)[1:-1])
