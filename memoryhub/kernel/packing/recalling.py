"""Recalling: which related texts a request brings along, and at which level. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from memoryhub.kernel.context import marks, recalls
from memoryhub.kernel.context.contexts import Texts
from memoryhub.kernel.context.recalls import Related
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.text.json_text import escape_for_string

#: Why a text is not recalled: larger than all that recall may take, or than what is
#: left.
Unfit: TypeAlias = Literal["too_large", "no_room"]


class RecallChoice(NamedTuple):
    """The texts that fit, each with the location of its level, and those that don't."""

    chosen: list[tuple[Related, Location]]
    unfit: Mapping[Location, Unfit]


def choose_texts(
    related: tuple[Related, ...],
    texts: Texts,
    *,
    room: int,
    unasked: int,
    count: Count,
) -> RecallChoice:
    """Choose the best related texts that fit in `room` tokens.

    `unasked` are the tokens for texts that no word of the message has found. A question
    or an answer beside a found text is chosen only if the found text is.
    """
    chosen, unfit = list[tuple[Related, Location]](), dict[Location, Unfit]()
    largest, there = min(room, unasked), set[Location]()
    for each in related:
        prefetched, least = each.source in recalls.PREFETCHED, 0
        left = min(room, unasked) if prefetched else room
        if each.beside is not None and each.beside not in there:
            # Without the found text, nobody knows why its exchange is shown.
            left = 0
        for at in (each.place, *(at for at in each.lower if at in texts)):
            least = _count_entry(each, at, texts, count)
            if least <= left:
                chosen.append((each, at))
                there.add(each.place)
                room -= least
                unasked -= least if prefetched else 0
                break
        else:
            unfit[each.place] = "too_large" if least > largest else "no_room"
    return RecallChoice(chosen, unfit)


def _count_entry(each: Related, at: Location, texts: Texts, count: Count) -> int:
    """Count a related text as it would stand in the recall at that level."""
    marked = marks.render_marks(each.marks, texts)
    entry = recalls.render_entry(texts[at], each.source, marked, level=at.level)
    return count(escape_for_string("\n\n" + entry))
