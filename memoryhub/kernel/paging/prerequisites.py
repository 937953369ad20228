"""Prerequisites: the pages that are read before each tool is called. Pure.

A call is credited with the pages referred to since the call before. Tools are known by
keyed digests of their names alone, since a model may have made the names up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.paging import Paging, ToolReads

#: Most tools learnt about, pages of each, and pages read since the last call.
TOOLS: Final = 16
PAGES: Final = 16
#: Number of last called tools whose prerequisites may be needed next, and of pages
#: each.
LAST, EACH = 3, 3
#: Calls before which a page must have been read to count as usual.
USUAL = 2


def should_note_tools(paging: Paging) -> bool:
    """Return whether the tools that a message calls are worth noting."""
    return bool(paging.read_since or paging.tools)


def start_learning(paging: Paging, event: TurnPacked) -> Paging:
    """Begin to learn with the first request that could bring pages along."""
    if paging.learns or event.manifest is None or not event.manifest.telling:
        return paging
    return paging._replace(learns=True)


def credit_tools(paging: Paging, tools: Sequence[str]) -> Paging:
    """Credit these tools with the pages that were read for them."""
    held = {each.digest: each for each in paging.tools}
    for digest in tools:
        before = held.pop(digest, ToolReads(digest))
        counts = dict(before.pages)
        for page_id in paging.read_since:
            counts[page_id] = counts.get(page_id, 0) + 1
        most = sorted(counts.items(), key=lambda each: -each[1])[:PAGES]
        held[digest] = ToolReads(digest, tuple(most))
    return paging._replace(tools=tuple(held.values())[-TOOLS:], read_since=())


def note_read(paging: Paging, page_id: str) -> Paging:
    """Note that somebody has referred to a page, or fetched it."""
    if not paging.learns or page_id in paging.read_since:
        return paging
    return paging._replace(read_since=(*paging.read_since, page_id)[-PAGES:])


def list_usual_pages(paging: Paging) -> list[str]:
    """List the pages usually read before the tools that were called last."""
    last = reversed(paging.tools[-LAST:])
    return [
        page_id
        for tool in last
        for page_id, count in tool.pages[:EACH]
        if count >= USUAL
    ]


def forget_page(paging: Paging, page_id: str) -> Paging:
    """Forget a page that was deleted."""
    if not should_note_tools(paging):
        return paging
    tools = (
        ToolReads(each.digest, tuple(page for page in each.pages if page[0] != page_id))
        for each in paging.tools
    )
    since = tuple(each for each in paging.read_since if each != page_id)
    return paging._replace(tools=tuple(tools), read_since=since)


def forget_tools(paging: Paging) -> Paging:
    """Forget all tools and what was read for them; later calls are learnt anew."""
    return paging._replace(tools=(), read_since=())
