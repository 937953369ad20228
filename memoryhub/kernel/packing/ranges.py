"""Ranges: a page too large for a request is read in parts. Pure.

Offsets count tokens of the page at FULL. A reader who goes from each part to its
`next_offset` reads all of the text, and nothing twice. See decision 46.
"""

from __future__ import annotations

from memoryhub.kernel.context import costs
from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count, count_fitting, estimate_tokens
from memoryhub.kernel.paging.page_commands import PageRange
from memoryhub.kernel.tools.tools import LEAST

#: Characters of the longest unsplit word; fewer than any `LEAST` tokens hold.
WORD = 30


def cut_range(
    opened: OpenedPage,
    *,
    version: int,
    offset: int,
    limit: int,
    count: Count = estimate_tokens,
) -> PageRange:
    """Return the part of `limit` tokens at `offset`; `opened` is at FULL.

    Linear in the text.
    """
    text = render_shown_text(opened)
    start, end = find_characters(opened, offset, offset + limit, count=count)
    return PageRange(
        page_id=opened.page_id,
        version=version,
        offset=offset,
        start=start,
        end=end,
        tokens=count(text[start:end]),
        cost=count(costs.render_line_json(opened, level=0, part=(start, end))),
        next_offset=offset + limit if end < len(text) else None,
    )


def find_characters(
    opened: OpenedPage, offset: int, end: int | None, *, count: Count = estimate_tokens
) -> tuple[int, int]:
    """Return the character range of a part given by its first and last token."""
    text = render_shown_text(opened)
    behind = len(text) if end is None else _find_place(text, end, count)
    return _find_place(text, offset, count), behind


def _find_place(text: str, tokens: int, count: Count) -> int:
    """Return the index of the character behind that many tokens.

    No word shorter than `WORD` is split. The place follows from the text alone, so one
    part ends where the next begins.
    """
    place = count_fitting(text, tokens, count=count)
    if place >= len(text):
        return len(text)
    words = text[max(0, place - WORD) : place]
    behind = max(words.rfind("\n"), words.rfind(" ")) + 1
    return place - len(words) + behind if behind else place


def fit_range(
    opened: OpenedPage,
    *,
    version: int,
    offset: int,
    limit: int,
    room: int,
    count: Count = estimate_tokens,
) -> PageRange | None:
    """Return the longest part of at most `limit` tokens that about fits in `room`.

    None when not even `LEAST` tokens fit.
    """
    limit = min(limit, room)
    while limit >= LEAST:
        part = cut_range(
            opened, version=version, offset=offset, limit=limit, count=count
        )
        if part.cost <= room:
            return part
        limit = min(limit * room // part.cost, limit - 1)
    return None
