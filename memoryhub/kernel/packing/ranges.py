"""Ranges: a page that is too large for a request is read in parts. Pure.

Offsets count tokens of the page's FULL, so whoever goes from each part to its
`next_offset` has read all of the text, and nothing twice.
"""

from __future__ import annotations

from memoryhub.kernel.levels import costs
from memoryhub.kernel.levels.lines import shown_text
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count, estimate, fitting
from memoryhub.kernel.levels.tools import LEAST
from memoryhub.kernel.paging.page_commands import Range

#: Characters; fewer than any `LEAST` tokens hold.
WORD = 30


def cut(
    opened: Opened,
    *,
    version: int,
    offset: int,
    limit: int,
    count: Count = estimate,
) -> Range:
    """Return the part of `limit` tokens at `offset`; `opened` is FULL.

    Linear in the text.
    """
    text = shown_text(opened)
    start, end = characters(opened, offset, offset + limit, count=count)
    return Range(
        page_id=opened.page_id,
        version=version,
        offset=offset,
        start=start,
        end=end,
        tokens=count(text[start:end]),
        cost=count(costs.in_line(opened, level=0, part=(start, end))),
        next_offset=offset + limit if end < len(text) else None,
    )


def characters(
    opened: Opened, offset: int, end: int | None, *, count: Count = estimate
) -> tuple[int, int]:
    """Return where a part from one token to another stands in the text."""
    text = shown_text(opened)
    behind = len(text) if end is None else _place(text, end, count)
    return _place(text, offset, count), behind


def _place(text: str, tokens: int, count: Count) -> int:
    """The character that stands behind so many tokens; no shorter word is split there.

    It follows from the text alone, so one part ends where the next begins.
    """
    place = fitting(text, tokens, count=count)
    if place >= len(text):
        return len(text)
    words = text[max(0, place - WORD) : place]
    behind = max(words.rfind("\n"), words.rfind(" ")) + 1
    return place - len(words) + behind if behind else place


def fitted(
    opened: Opened,
    *,
    version: int,
    offset: int,
    limit: int,
    room: int,
    count: Count = estimate,
) -> Range | None:
    """Return the longest part of at most `limit` tokens that `room` nearly holds.

    None when not even `LEAST` tokens of it fit.
    """
    limit = min(limit, room)
    while limit >= LEAST:
        part = cut(opened, version=version, offset=offset, limit=limit, count=count)
        if part.cost <= room:
            return part
        limit = min(limit * room // part.cost, limit - 1)
    return None
