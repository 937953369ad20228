"""Missing: what a turn's request does not show, or not whole, and how that came.

Never writes. Looks at what left, was shortened or was refused in the turns before, and
at what the manifest offered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson
from django.db.models import Q

from memoryhub.journal.rows.page_rows import entry_of
from memoryhub.journal.writing import texts
from memoryhub.kernel.levels import manifest
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.state.page_events import (
    FaultRefused,
    PageEvicted,
    PageLowered,
    PagesEvicted,
)
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.state import Segment
from memoryhub.models.events import Event
from memoryhub.models.pages import Page
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import lives, newcomers, page_texts
from memoryhub.queries.paging.lives import Life, LifeStep, StepKind
from memoryhub.queries.paging.newcomers import Newcomer
from memoryhub.queries.threads.evicted_pages import Place
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.turns.matches import Match, Matches
from memoryhub.queries.turns.turns import Shown, TurnLine, Used

#: Turns before, and after, that a page is said to have left or been wanted lately in.
TURNS = 5
#: Of the events of those turns, so many of the newest are looked at; pages of them, and
#: all pages.
EVENTS, RECENT, PAGES = 500, 30, 48
_LEAVING: tuple[StepKind, ...] = ("left", "shortened")
#: The least urgent: what was in long ago, or never.
OFFERED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A row of the manifest, as the model read it."""

    row: int
    rows: int
    #: None when the text it was made of is gone.
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPage:
    """A page that the request does not show, or not whole."""

    page_id: str
    #: What the page table says; None for a page that is gone by now.
    entry: Entry | None
    #: How the request shows it; None when it does not.
    used: Used | None
    #: It was in the working set, and found no room in the request.
    omitted: bool
    #: As it was said; None when it is gone, or was changed since.
    text: Opened | None
    life: Life
    #: By which it last left before the request, unless it was back by then.
    left: LifeStep | None
    #: By which it was last shortened before the request; None of one that the request
    #: shows cut, for that is no doing of the working set's.
    shortened: LifeStep | None
    #: By which it was last refused to the model in the turns before.
    refused: LifeStep | None
    #: What it left or was shortened for.
    newcomer: Newcomer | None
    offer: Offer | None
    #: The first time that the model asked for it afterwards.
    wanted: LifeStep | None
    #: It left, was shortened or was refused in the turns before.
    recent: bool
    #: It was wanted within the turns after.
    missed: bool
    #: Its place among the ten that fit the question best; None if it has none.
    match: Match | None = None

    @property
    def tokens(self) -> int | None:
        """Give the tokens of its whole text."""
        return self.entry.full.cost if self.entry else None

    @property
    def refused_tokens(self) -> int | None:
        """Give the tokens of the level that was asked for and refused."""
        if self.refused is None or self.entry is None:
            return None
        return self.entry.at(self.entry.at_most(self.refused.body["level"])).tokens

    @property
    def urgency(self) -> int:
        """Rank how much it tells, 0 the most."""
        if self.missed:
            return 0
        if self.refused and self.used is None:
            return 1
        if self.used is None and (self.omitted or self._just_left):
            return 2
        return 3 if self.used is not None else OFFERED

    @property
    def _just_left(self) -> bool:
        """Tell whether it left lately; calls that brought nothing leave with theirs."""
        if self.left is None or not self.recent:
            return False
        return self.left.body.get("cause") != "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What a request does not show whole, most telling first."""

    pages: tuple[MissingPage, ...]
    #: Pages beyond those that were looked at.
    more: int
    #: Ids of the pages that it shows whole.
    whole: frozenset[str]
    #: Tokens of the budget that the request left free.
    free: int
    #: The first turn that was looked back to.
    since: int
    #: The clock of the state that was packed, and that of the thread by now.
    clock: int
    head: int

    def find(self, page_id: str) -> MissingPage | None:
        return next((page for page in self.pages if page.page_id == page_id), None)


def get_missing(
    thread: Thread, shown: Shown, *, since: TurnLine, matches: Matches | None = None
) -> Missing:
    """Return what the request of a turn does not show whole, as of when it was packed.

    `since` is the turn that is looked back to; what fits the question best comes first.
    Ten queries at most, whatever the number of pages. `thread` comes with its
    subject.
    """
    whole = frozenset(used.page_id for used in shown.used if used.whole)
    parts = get_segments(thread)
    best = {each.page_id: each for each in matches.items} if matches else {}
    candidates = _candidates(shown, [*best, *_recent(parts, shown, since)], whole)
    chosen = candidates[:PAGES]
    entries = _entries(parts, shown.state.paging, chosen)
    found = lives.get_lives(parts, entries, shown.state.paging.frames)
    opened = _texts(thread, shown, entries.values())
    facts = _Facts(shown, since.n, found, opened, best)
    steps = [step for life in found.values() for step in facts.last_steps(life)]
    came = newcomers.get_newcomers(parts, steps)
    pages = [
        facts.page(page_id, entries[page_id], came)
        for page_id in chosen
        if page_id in entries
    ]
    return Missing(
        pages=tuple(sorted(pages, key=_place)),
        more=len(candidates) - len(pages),
        whole=whole,
        free=max(0, shown.event.budget - shown.event.tokens),
        since=since.n,
        clock=shown.state.clock,
        head=sum(part.up_to_seq for part in parts),
    )


def _place(page: MissingPage) -> tuple[float, ...]:
    """Sort the most telling first: the best match, then by urgency, offer, age."""
    if page.match is not None:
        return -1, page.match.rank
    if page.urgency == 0 and page.wanted is not None:
        return 0, page.wanted.clock
    step = page.left or page.shortened
    row = page.offer.row if page.offer else PAGES
    return page.urgency, row, -step.clock if step else 0


def _recent(parts: Sequence[Segment], shown: Shown, since: TurnLine) -> Iterator[str]:
    """Pages that left, were shortened or refused since a turn, newest first."""
    left = Q(type=PageEvicted.event_type, body__contains='"tier_before":"L0"')
    types = (PageLowered, FaultRefused, PagesEvicted)
    others = Q(type__in=[each.event_type for each in types])
    rows = Event.objects.filter(_between(parts, shown, since), left | others)
    newest = rows.order_by("-seq").values_list("page", "type", "body")[:EVENTS]
    for page_id, kind, body in newest:
        if kind == PagesEvicted.event_type:
            yield from reversed(orjson.loads(body)["page_ids"])
        elif page_id:
            yield page_id


def _between(parts: Sequence[Segment], shown: Shown, since: TurnLine) -> Q:
    """The events from a turn on, up to the state that was packed."""
    homes = [part.thread for part in parts]
    first, last = homes.index(since.home), homes.index(shown.recorded.home.id)
    among = Q()
    for n, part in enumerate(parts[first : last + 1], start=first):
        low = since.seq if n == first else 0
        high = shown.event.as_of_seq if n == last else part.up_to_seq
        among |= Q(thread_id=part.thread, seq__gt=low, seq__lte=high)
    return among


def _candidates(
    shown: Shown, recent: Iterable[str], whole: Collection[str]
) -> list[str]:
    """Pages that may be missed: as they come, those of late, then as offered."""
    used = {each.page_id for each in shown.used}
    omitted = sorted(set(shown.state.paging.frames) - used)
    shortened = [each.page_id for each in shown.used if each.page_id]
    record = shown.recorded.record.manifest
    offered = [row.page_id for row in record.rows] if record else []
    late = [each for each in dict.fromkeys([*recent, *omitted]) if each not in whole]
    order = [*late[:RECENT], *offered, *late[RECENT:], *shortened]
    return [each for each in dict.fromkeys(order) if each not in whole]


def _entries(
    parts: Sequence[Segment], paging: Paging, page_ids: Sequence[str]
) -> dict[str, Entry | None]:
    """What the page table said of these; None for those that are deleted by now.

    One query for what the state does not hold.
    """
    found: dict[str, Entry | None] = {**page_texts.entries_held(paging, page_ids)}
    lacking = [page_id for page_id in page_ids if page_id not in found]
    order = [part.thread for part in parts]
    rows = Page.objects.filter(thread_id__in=order, page_id__in=lacking)
    for row in sorted(rows, key=lambda row: order.index(row.thread_id)):
        gone = row.deleted_seq is not None
        found[row.page_id] = None if gone else entry_of(row, ())
    return found


def _texts(
    thread: Thread, shown: Shown, entries: Iterable[Entry | None]
) -> Mapping[str, Opened]:
    """The pages' texts, of the version that there was. Two queries."""
    home, last = shown.recorded.home.id, shown.event.as_of_seq
    places = {
        entry.page_id: entry.full.location
        for entry in entries
        if entry is not None
        and (entry.full.location.thread != home or entry.full.location.seq <= last)
    }
    opened = texts.opened(thread, [*places.values()])
    return {
        page_id: opened[place] for page_id, place in places.items() if place in opened
    }


class _Facts:
    """Tells a page's fate from its life and the request. No query."""

    def __init__(
        self,
        shown: Shown,
        since: int,
        found: Mapping[str, Life],
        opened: Mapping[str, Opened],
        best: Mapping[str, Match],
    ) -> None:
        self.shown, self.since = shown, since
        self.lives, self.opened, self.best = found, opened, best
        self.turn, self.clock = shown.event.turn, shown.state.clock
        self.frames = shown.state.paging.frames
        # Of a page in parts the first says enough.
        self.used = {each.page_id: each for each in reversed(shown.used)}
        self.offers = dict(_offers(shown))

    def last_steps(self, life: Life) -> Iterator[LifeStep]:
        """Yield what took the page away or shortened it before the request."""
        steps = (life.last(kind, up_to=self.clock) for kind in _LEAVING)
        yield from (step for step in steps if step is not None)

    def page(
        self, page_id: str, entry: Entry | None, came: Mapping[Place, Newcomer]
    ) -> MissingPage:
        life, used = self.lives[page_id], self._used(page_id)
        there = page_id in self.frames
        left = None if there else life.last("left", up_to=self.clock)
        shortened = life.last("shortened", up_to=self.clock)
        if used is not None and not used.level:
            shortened = None
        refused = self._lately(life.last("refused", up_to=self.clock))
        wanted = life.first("fetched", "refused", after=self.clock)
        by = left or (shortened if used else None)
        late = [self._lately(step) for step in (left, shortened)]
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

    def _used(self, page_id: str) -> Used | None:
        """How the request shows the page; a result that is only named is not in."""
        used = self.used.get(page_id)
        return None if used is None or used.cut == 0 else used

    def _lately(self, step: LifeStep | None) -> LifeStep | None:
        return step if step is not None and step.turn >= self.since else None


def _offers(shown: Shown) -> Iterator[tuple[str, Offer]]:
    offered, own = shown.recorded.record.manifest, shown.recorded.home.id
    rows = offered.rows if offered else ()
    for n, row in enumerate(rows, start=1):
        opened = shown.texts.get(row.location(own))
        hint = None
        if offered and opened:
            listed = manifest.available(row, opened, telling=offered.telling)
            hint = listed["hint"]
        yield row.page_id, Offer(row=n, rows=len(rows), hint=hint)
