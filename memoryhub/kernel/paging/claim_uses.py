"""Uses of claims: how often each was referred to or fetched, in any tier. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging import ClaimUse, Frame, Hot, Paging, list_values

#: Most claims whose uses are counted; the least used are dropped.
CLAIMS: Final = 256


def note_use(paging: Paging, entry: PageEntry | None, clock: int) -> Paging:
    """Note that somebody has referred to a page, if the page is a claim."""
    if not paging.counts_claims or entry is None or entry.type != "claim":
        return paging
    name = entry.page_id
    before = next((each for each in paging.claims if each.page_id == name), None)
    used = ClaimUse(name, before.uses + 1 if before else 1, clock)
    others = (each for each in paging.claims if each is not before)
    return paging._replace(claims=(used, *_sort_claims(others))[:CLAIMS])


def forget_page(paging: Paging, page_id: str) -> Paging:
    """Forget a claim that was deleted."""
    if not any(each.page_id == page_id for each in paging.claims):
        return paging
    left = tuple(each for each in paging.claims if each.page_id != page_id)
    return paging._replace(claims=left)


def list_most_used(paging: Paging) -> list[ClaimUse]:
    """List the claims of any tier, the most used first.

    A claim at hand counts what its frame or its hot place has counted, if that is more.
    """
    found = {each.page_id: each for each in paging.claims}
    pages: list[Frame | Hot] = [*list_values(paging.frames), *list_values(paging.hot)]
    for page in pages:
        if page.entry.type != "claim":
            continue
        # The creation of a page counts as a reference, too.
        uses, clock = page.references - 1, page.referenced_seq
        held = found.get(page.page_id, ClaimUse(page.page_id, 0, clock))
        if uses >= held.uses:
            found[page.page_id] = ClaimUse(page.page_id, uses, clock)
    return _sort_claims(found.values())


def _sort_claims(claims: Iterable[ClaimUse]) -> list[ClaimUse]:
    return sorted(claims, key=lambda each: (-each.uses, -each.clock, each.page_id))
