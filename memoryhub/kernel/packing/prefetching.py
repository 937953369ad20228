"""Prefetching: pages that an exchange may need, whatever its message says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from memoryhub.kernel.context import recalls
from memoryhub.kernel.context.recalls import Related
from memoryhub.kernel.paging import claim_uses, prerequisites
from memoryhub.kernel.state.pages import FULL, Location, PageEntry
from memoryhub.kernel.state.paging import Paging

#: Most pages that a turn may prefetch, and most claims among these pages.
PREFETCHED: Final = 5
CLAIMS: Final = 3
#: Most used claims that are candidates.
CANDIDATES: Final = 16


class Prefetchable(NamedTuple):
    """A page of any tier that an exchange may need, and why."""

    entry: PageEntry
    #: A word of `recalls.PREFETCHED`.
    source: str

    @property
    def place(self) -> Location:
        return self.entry.full.location


def list_wanted_pages(
    paging: Paging, summaries: Sequence[str]
) -> list[tuple[str, str]]:
    """List (page id, source) of the pages to prefetch, best first, each once.

    `summaries` has the newest summary. Claims count once they were used.
    """
    used = [each.page_id for each in claim_uses.list_most_used(paging) if each.uses]
    found = [(each, recalls.SUMMARY) for each in summaries]
    found += [(each, recalls.CLAIM) for each in used[:CANDIDATES]]
    found += [
        (each, recalls.PREREQUISITE) for each in prerequisites.list_usual_pages(paging)
    ]
    sources = dict(reversed(found))
    return [(name, sources[name]) for name in dict(found)]


def list_pages(
    wanted: Sequence[tuple[str, str]], entries: Mapping[str, PageEntry]
) -> list[Prefetchable]:
    """List the pages to prefetch that still exist, in the same order."""
    there = ((entries[name], source) for name, source in wanted if name in entries)
    return [Prefetchable(*each) for each in there]


def choose_pages(
    pages: Sequence[Prefetchable], shown: Collection[Location]
) -> list[Related]:
    """Choose the pages to prefetch, at most five; `shown` stand in the request anyway.

    The newest summary, the three most used claims, and the pages usually read before
    the tools called last. The last of these may come at a lower level.
    """
    away = [each for each in pages if each.place not in shown]
    claims = [each for each in away if each.source == recalls.CLAIM][CLAIMS:]
    return [
        Related(each.place, each.source, lower=_list_lower(each))
        for each in away
        if each not in claims
    ][:PREFETCHED]


def _list_lower(page: Prefetchable) -> tuple[Location, ...]:
    """List the levels below FULL of a page that may come shortened."""
    if page.source != recalls.PREREQUISITE:
        return ()
    lower = page.entry.levels[FULL + 1 :]
    return tuple(held.location for held in lower if held is not None)
