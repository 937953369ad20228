"""Missing pages: pages that a turn's request lacks or shows in part, and the cause.

Never writes. Searches the pages evicted, shortened or refused in the turns before, and
the pages offered by the manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson
from django.db.models import Q

from memoryhub.journal import texts
from memoryhub.journal.rows.page_rows import build_entry
from memoryhub.kernel.context import manifest
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.state.page_events import (
    FaultRefused,
    PageEvicted,
    PageLowered,
    PagesEvicted,
)
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.state import LineageSegment
from memoryhub.models.events import Event
from memoryhub.models.pages import Page
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import lives, newcomers, page_texts
from memoryhub.queries.paging.lives import LifeStep, PageLife, StepKind
from memoryhub.queries.paging.newcomers import Newcomer
from memoryhub.queries.threads.evicted_pages import Place
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.turns.matches import QuestionMatch, QuestionMatches
from memoryhub.queries.turns.turns import ShownRequest, TurnLine, UsedText

#: Number of turns before and after the request that count as recent.
TURNS = 5
#: Maximum numbers of newest events searched in those turns, of pages from them, and of
#: pages in all.
EVENTS, RECENT, PAGES = 500, 30, 48
_LEAVING: tuple[StepKind, ...] = ("left", "shortened")
#: The lowest urgency: pages that were in the working set long ago, or never.
OFFERED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOffer:
    """A row of the manifest that the model read."""

    row: int
    rows: int
    #: None when the text of the hint was erased.
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPage:
    """A page that the request lacks or shows in part."""

    page_id: str
    #: The page table's entry; None for a page deleted since.
    entry: PageEntry | None
    #: The page's text in the request; None when the request lacks the page.
    used: UsedText | None
    #: Whether the page was in the working set but found no room in the request.
    omitted: bool
    #: The text as of the request; None when erased, or changed since.
    text: OpenedPage | None
    life: PageLife
    #: The last eviction before the request; None if the page was back by then.
    left: LifeStep | None
    #: The last shortening before the request; None for a page shown at level FULL,
    #: which only the request itself can have cut.
    shortened: LifeStep | None
    #: The last refusal to the model in the turns before.
    refused: LifeStep | None
    #: The page for which this page was evicted or shortened.
    newcomer: Newcomer | None
    offer: ManifestOffer | None
    #: The model's first fetch of the page after the request, served or refused.
    wanted: LifeStep | None
    #: Whether the page was evicted, shortened or refused in the turns before.
    recent: bool
    #: Whether the model wanted the page within the turns after.
    missed: bool
    #: The page's match with the question, if among the ten best; else None.
    match: QuestionMatch | None = None

    @property
    def tokens(self) -> int | None:
        """Return the tokens of the page's whole text."""
        return self.entry.full.cost if self.entry else None

    @property
    def refused_tokens(self) -> int | None:
        """Return the tokens of the level that was requested and refused."""
        if self.refused is None or self.entry is None:
            return None
        return self.entry.require_level(
            self.entry.pick_level(self.refused.body["level"])
        ).tokens

    @property
    def urgency(self) -> int:
        """Return the rank of urgency, 0 for the most urgent."""
        if self.missed:
            return 0
        if self.refused and self.used is None:
            return 1
        if self.used is None and (self.omitted or self._has_just_left):
            return 2
        return 3 if self.used is not None else OFFERED

    @property
    def _has_just_left(self) -> bool:
        """Tell whether the page left lately, other than with its answered call."""
        if self.left is None or not self.recent:
            return False
        return self.left.body.get("cause") != "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPages:
    """Pages that a request lacks or shows in part, most urgent first."""

    pages: tuple[MissingPage, ...]
    #: Number of candidates that were not examined.
    more: int
    #: Ids of the pages that the request shows whole.
    whole: frozenset[str]
    #: Tokens of the budget that the request left free.
    free: int
    #: The earliest turn of the search.
    since: int
    #: The clock of the packed state, and the clock of the thread's head.
    clock: int
    head: int

    def find(self, page_id: str) -> MissingPage | None:
        return next((page for page in self.pages if page.page_id == page_id), None)


def get_missing(
    thread: Thread,
    shown: ShownRequest,
    *,
    since: TurnLine,
    matches: QuestionMatches | None = None,
) -> MissingPages:
    """Return the pages that a turn's request lacks or shows in part.

    As of the packing. `since` is the earliest turn of the search; the best matches of
    the question come first. Ten queries at most, whatever the number of pages. `thread`
    comes with its subject.
    """
    whole = list_whole(shown)
    parts = get_segments(thread)
    best = {each.page_id: each for each in matches.items} if matches else {}
    candidates = _list_candidates(
        shown, [*best, *_iter_recent(parts, shown, since)], whole
    )
    chosen = candidates[:PAGES]
    entries = _find_entries(parts, shown.state.paging, chosen)
    found = lives.get_lives(parts, entries, shown.state.paging.frames)
    opened = _open_texts(thread, shown, entries.values())
    facts = _PageFacts(shown, since.n, found, opened, best)
    steps = [step for life in found.values() for step in facts.iter_last_steps(life)]
    came = newcomers.get_newcomers(parts, steps)
    pages = [
        facts.build_page(page_id, entries[page_id], came)
        for page_id in chosen
        if page_id in entries
    ]
    return MissingPages(
        pages=tuple(sorted(pages, key=_build_sort_key)),
        more=len(candidates) - len(pages),
        whole=whole,
        free=count_free(shown),
        since=since.n,
        clock=shown.state.clock,
        head=sum(part.up_to_seq for part in parts),
    )


def list_whole(shown: ShownRequest) -> frozenset[str]:
    """List the ids of the pages that a request shows whole."""
    return frozenset(used.page_id for used in shown.used if used.whole)


def count_free(shown: ShownRequest) -> int:
    """Count the tokens of the budget that a request left free."""
    return max(0, shown.event.budget - shown.event.tokens)


def _build_sort_key(page: MissingPage) -> tuple[float, ...]:
    """Build the sort key: the best match first, then by urgency, offer, age."""
    if page.match is not None:
        return -1, page.match.rank
    if page.urgency == 0 and page.wanted is not None:
        return 0, page.wanted.clock
    step = page.left or page.shortened
    row = page.offer.row if page.offer else PAGES
    return page.urgency, row, -step.clock if step else 0


def _iter_recent(
    parts: Sequence[LineageSegment], shown: ShownRequest, since: TurnLine
) -> Iterator[str]:
    """Yield pages evicted, shortened or refused since a turn, newest first."""
    left = Q(type=PageEvicted.event_type, body__contains='"tier_before":"L0"')
    types = (PageLowered, FaultRefused, PagesEvicted)
    others = Q(type__in=[each.event_type for each in types])
    rows = Event.objects.filter(_build_range(parts, shown, since), left | others)
    newest = rows.order_by("-seq").values_list("page", "type", "body")[:EVENTS]
    for page_id, kind, body in newest:
        if kind == PagesEvicted.event_type:
            yield from reversed(orjson.loads(body)["page_ids"])
        elif page_id:
            yield page_id


def _build_range(
    parts: Sequence[LineageSegment], shown: ShownRequest, since: TurnLine
) -> Q:
    """Build the condition on events from a turn up to the packed state."""
    homes = [part.thread for part in parts]
    first, last = homes.index(since.home), homes.index(shown.recorded.home.id)
    among = Q()
    for n, part in enumerate(parts[first : last + 1], start=first):
        low = since.seq if n == first else 0
        high = shown.event.as_of_seq if n == last else part.up_to_seq
        among |= Q(thread_id=part.thread, seq__gt=low, seq__lte=high)
    return among


def _list_candidates(
    shown: ShownRequest, recent: Iterable[str], whole: Collection[str]
) -> list[str]:
    """List candidates in order: given and recent pages, then offered pages."""
    used = {each.page_id for each in shown.used}
    omitted = sorted(set(shown.state.paging.frames) - used)
    shortened = [each.page_id for each in shown.used if each.page_id]
    record = shown.recorded.record.manifest
    offered = [row.page_id for row in record.rows] if record else []
    late = [each for each in dict.fromkeys([*recent, *omitted]) if each not in whole]
    order = [*late[:RECENT], *offered, *late[RECENT:], *shortened]
    return [each for each in dict.fromkeys(order) if each not in whole]


def _find_entries(
    parts: Sequence[LineageSegment], paging: Paging, page_ids: Sequence[str]
) -> dict[str, PageEntry | None]:
    """Return the page table's entries; None for pages deleted since.

    One query for pages that the state does not hold.
    """
    found: dict[str, PageEntry | None] = {
        **page_texts.list_held_entries(paging, page_ids)
    }
    lacking = [page_id for page_id in page_ids if page_id not in found]
    order = [part.thread for part in parts]
    rows = Page.objects.filter(thread_id__in=order, page_id__in=lacking)
    for row in sorted(rows, key=lambda row: order.index(row.thread_id)):
        gone = row.deleted_seq is not None
        found[row.page_id] = None if gone else build_entry(row, ())
    return found


def _open_texts(
    thread: Thread, shown: ShownRequest, entries: Iterable[PageEntry | None]
) -> Mapping[str, OpenedPage]:
    """Open the pages' texts, of the version as of the request. Two queries."""
    home, last = shown.recorded.home.id, shown.event.as_of_seq
    places = {
        entry.page_id: entry.full.location
        for entry in entries
        if entry is not None
        and (entry.full.location.thread != home or entry.full.location.seq <= last)
    }
    opened = texts.open_texts(thread, [*places.values()])
    return {
        page_id: opened[place] for page_id, place in places.items() if place in opened
    }


class _PageFacts:
    """Builder of missing pages from their lives and the request. No query."""

    def __init__(
        self,
        shown: ShownRequest,
        since: int,
        found: Mapping[str, PageLife],
        opened: Mapping[str, OpenedPage],
        best: Mapping[str, QuestionMatch],
    ) -> None:
        self.shown, self.since = shown, since
        self.lives, self.opened, self.best = found, opened, best
        self.turn, self.clock = shown.event.turn, shown.state.clock
        self.frames = shown.state.paging.frames
        # The first part of a page shown in parts is enough.
        self.used = {each.page_id: each for each in reversed(shown.used)}
        self.offers = dict(_iter_offers(shown))

    def iter_last_steps(self, life: PageLife) -> Iterator[LifeStep]:
        """Yield the last eviction and shortening of the page before the request."""
        steps = (life.find_last(kind, up_to=self.clock) for kind in _LEAVING)
        yield from (step for step in steps if step is not None)

    def build_page(
        self, page_id: str, entry: PageEntry | None, came: Mapping[Place, Newcomer]
    ) -> MissingPage:
        life, used = self.lives[page_id], self._find_used(page_id)
        there = page_id in self.frames
        left = None if there else life.find_last("left", up_to=self.clock)
        shortened = life.find_last("shortened", up_to=self.clock)
        if used is not None and not used.level:
            shortened = None
        refused = self._keep_recent(life.find_last("refused", up_to=self.clock))
        wanted = life.find_first("fetched", "refused", after=self.clock)
        by = left or (shortened if used else None)
        late = [self._keep_recent(step) for step in (left, shortened)]
        return MissingPage(
            page_id=page_id,
            entry=entry,
            used=used,
            omitted=there and used is None,
            text=self.opened.get(page_id),
            life=life,
            left=left,
            shortened=shortened,
            refused=refused,
            newcomer=came.get((by.thread, by.seq)) if by else None,
            offer=self.offers.get(page_id),
            wanted=wanted,
            recent=any([*late, refused]),
            missed=wanted is not None and wanted.turn <= self.turn + TURNS,
            match=self.best.get(page_id),
        )

    def _find_used(self, page_id: str) -> UsedText | None:
        """Return the page's text in the request; a result only named does not count."""
        used = self.used.get(page_id)
        return None if used is None or used.cut == 0 else used

    def _keep_recent(self, step: LifeStep | None) -> LifeStep | None:
        return step if step is not None and step.turn >= self.since else None


def _iter_offers(shown: ShownRequest) -> Iterator[tuple[str, ManifestOffer]]:
    offered, own = shown.recorded.record.manifest, shown.recorded.home.id
    rows = offered.rows if offered else ()
    for n, row in enumerate(rows, start=1):
        opened = shown.texts.get(row.get_location(own))
        hint = None
        if offered and opened:
            listed = manifest.build_available_page(row, opened, telling=offered.telling)
            hint = listed["hint"]
        yield row.page_id, ManifestOffer(row=n, rows=len(rows), hint=hint)
