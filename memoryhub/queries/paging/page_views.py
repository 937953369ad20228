"""Views of pages: levels side by side, versions, history, and the page table.

Never writes, and makes no look-up in the TLB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from memoryhub.journal import texts
from memoryhub.journal.rows.page_rows import build_entry
from memoryhub.kernel.context.opened import OpenedPage, get_body
from memoryhub.kernel.state.pages import LEVEL_NAMES, PageEntry
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.lists.terms import (
    NumberSpan,
    SearchTerm,
    Value,
    WordValue,
    is_within,
)
from memoryhub.queries.paging import lives, page_uses, pages, residency
from memoryhub.queries.paging.lives import PageLife
from memoryhub.queries.paging.page_uses import PageUses
from memoryhub.queries.paging.pages import PageCondition, PageFilter, PageLine
from memoryhub.queries.paging.residency import KeepReason
from memoryhub.queries.replay import states
from memoryhub.queries.threads import evicted_pages
from memoryhub.queries.threads.forks import get_segments

#: Number of events in a page's history; the thread's event list has the older ones.
HISTORY = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelView:
    """One level of a page's current version."""

    level: int
    tokens: int
    #: Tokens saved compared with level FULL.
    saved: int
    producer: str
    mapped: bool
    #: The event whose payload has the text; None when the event is an ancestor's.
    seq: int | None
    #: The text, or the JSON value; None when the text was erased.
    content: Any

    @property
    def name(self) -> str:
        return LEVEL_NAMES[self.level]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVersion:
    """A past or the current version of a page."""

    n: int
    seq: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStep:
    """An event in the history of a page or key."""

    seq: int
    at: datetime
    type: str
    actor: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """A page as of an event."""

    line: PageLine
    letter: str
    resident_tokens: int | None
    #: None while the page is not mapped.
    why: KeepReason | None
    recalled: bool
    levels: tuple[LevelView, ...]
    versions: tuple[PageVersion, ...]
    provenance: tuple[str, ...]
    #: Newest first, at most `HISTORY`.
    history: tuple[PageStep, ...]
    more_history: bool
    #: The newest eviction from the working set in the history.
    evicted: PageStep | None
    uses: PageUses
    #: Whether the TLB holds the page's entry: a look-up would hit.
    in_tlb: bool
    #: The life from creation to the thread's head, whatever `seq`.
    life: PageLife
    #: The clock of the view's instant, and the clock of the thread's head.
    clock: int
    head: int
    #: Turns with the clocks at which the turns began, for an axis.
    ticks: tuple[tuple[int, int], ...]

    @property
    def entry(self) -> PageEntry:
        return self.line.entry

    @property
    def erased(self) -> bool:
        return any(level.content is None for level in self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedPage:
    """The known facts of a deleted page; fields are as in `PageView`."""

    life: PageLife
    head: int
    ticks: tuple[tuple[int, int], ...]


def get_page(thread: Thread, page_id: str, *, seq: int) -> PageView:
    """Return a page as of `seq`.

    At most eighteen queries, more in a fork for inherited pages. `thread` comes with
    its subject. Raises PageUnknownError, PageErasedError.
    """
    state, parts = states.load_state(thread, seq), get_segments(thread)
    entry = pages.find_entry(state, page_id)
    rows = PageLevel.objects.filter(
        thread_id=thread.id, page_id=page_id, seq__lte=seq
    ).order_by("version", "level")
    levels = list(rows)
    history = _list_history(thread, page_id, seq=seq)
    frame = state.paging.frames.get(page_id)
    uses = page_uses.get_uses(state, entry, levels)
    life = lives.get_lives(parts, {page_id: entry}, state.paging.frames)[page_id]
    brought = ((use.turn, use.seq) for use in uses.carried if use.section == "recall")
    return PageView(
        line=pages.build_line(state, entry),
        letter=residency.get_letter(entry),
        resident_tokens=frame.tokens if frame else None,
        why=residency.explain_page(state, page_id),
        recalled=bool(frame and frame.recalled),
        levels=_build_levels(thread, entry, levels, frame.level if frame else None),
        versions=_build_versions(entry, levels),
        provenance=()
        if entry.slot is not None
        else pages.get_provenance(state, page_id),
        history=history[:HISTORY],
        more_history=len(history) > HISTORY,
        evicted=next((step for step in history if _is_eviction(step)), None),
        uses=uses,
        in_tlb=state.paging.tlb.find(page_id) is not None,
        life=lives.add_recalled(life, parts, brought),
        clock=state.clock,
        head=sum(part.up_to_seq for part in parts),
        ticks=tuple(lives.get_ticks(parts, thread.turn_count)),
    )


def get_deleted(thread: Thread, page_id: str) -> DeletedPage:
    """Return what is known of a deleted page. Six queries."""
    parts = get_segments(thread)
    rows = Page.objects.filter(thread__in=[part.thread for part in parts])
    row = rows.filter(page_id=page_id).order_by("seq").last()
    made = None if row is None else build_entry(row, ())
    return DeletedPage(
        life=lives.get_lives(parts, {page_id: made})[page_id],
        head=sum(part.up_to_seq for part in parts),
        ticks=tuple(lives.get_ticks(parts, thread.turn_count)),
    )


def list_pages(
    thread: Thread,
    *,
    seq: int,
    terms: Sequence[SearchTerm] = (),
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[PageLine]:
    """List the page table as of `seq` like `pages.list_pages`, narrowed by a search.

    Three queries beside those of `pages.list_pages`. Raises BadCursorError likewise.
    """
    also = PageCondition(
        plain=[term.to_json() for term in terms],
        matches=lambda line: all(_is_term_met(term, line) for term in terms),
    )
    return pages.list_pages(
        thread,
        states.load_state(thread, seq),
        where=_build_filter(terms),
        also=also,
        after=after,
        limit=limit,
    )


def _build_levels(
    thread: Thread, entry: PageEntry, rows: Iterable[PageLevel], mapped: int | None
) -> tuple[LevelView, ...]:
    """Build the existing levels, with texts. One query per thread of the lineage."""
    there = [(n, level) for n, level in enumerate(entry.levels) if level is not None]
    opened = texts.open_texts(thread, [level.location for _, level in there])
    producers = {
        row.level: row.producer for row in rows if row.version == entry.version
    }
    return tuple(
        LevelView(
            level=n,
            tokens=level.tokens,
            saved=entry.full.tokens - level.tokens,
            producer=producers.get(n, ""),
            mapped=mapped == n,
            seq=level.location.seq if level.location.thread == thread.id else None,
            content=_get_content(opened.get(level.location), n),
        )
        for n, level in there
    )


def _get_content(opened: OpenedPage | None, level: int) -> Any:
    return None if opened is None else get_body(opened, level=level)


def _build_versions(
    entry: PageEntry, rows: Iterable[PageLevel]
) -> tuple[PageVersion, ...]:
    full = entry.full
    olds = [
        PageVersion(n=row.version, seq=row.seq, tokens=row.tokens)
        for row in rows
        if row.level == 0 and row.version != entry.version
    ]
    now = PageVersion(n=entry.version, seq=full.location.seq, tokens=full.tokens)
    return (*olds, now)


def _list_history(thread: Thread, page_id: str, *, seq: int) -> tuple[PageStep, ...]:
    rows = Event.objects.filter(thread_id=thread.id, page=page_id, seq__lte=seq)
    newest = rows.defer("payload").order_by("-seq")[: HISTORY + 1]
    journals = [(thread.id, seq)]
    joined = evicted_pages.list_places(journals, [page_id], newest=HISTORY + 1)
    among = Event.objects.filter_places(place for place, _ in joined).defer("payload")
    found = sorted([*newest, *among], key=attrgetter("seq"), reverse=True)
    return tuple(_build_step(row, page_id) for row in found[: HISTORY + 1])


def _build_step(row: Event, page_id: str) -> PageStep:
    return PageStep(
        seq=row.seq,
        at=row.at,
        type=row.type,
        actor=row.actor,
        body=evicted_pages.narrow_to_page(row.type, orjson.loads(row.body), page_id),
    )


def _is_eviction(step: PageStep) -> bool:
    return step.type in evicted_pages.EVICTED and step.body.get("tier_before") == "L0"


# Search of the page table


def _build_filter(terms: Sequence[SearchTerm]) -> PageFilter:
    """Build the filter for the search terms that database rows can answer."""
    fields: dict[str, Any] = {}
    for term in terms:
        if term.negated or len(term.values) > 1:
            continue
        (value,) = term.values
        if term.key in ("tier", "type", "modality") and isinstance(value, WordValue):
            fields[term.key] = value.text
        elif term.key == "level":
            fields["tier"] = "L0"
        elif term.key == "pinned" and value == WordValue(text="yes"):
            fields["pinned"] = True
    return PageFilter(**fields)


_WORDS: dict[str, Callable[[PageLine], str]] = {
    "page": lambda line: line.entry.page_id,
    "tier": lambda line: line.tier,
    "type": lambda line: line.entry.type,
    "modality": lambda line: line.entry.modality,
    "pinned": lambda line: "yes" if line.pinned else "no",
}
_NUMBERS: dict[str, Callable[[PageLine], int | None]] = {
    "level": lambda line: line.level,
    "tokens": lambda line: line.entry.full.tokens,
}


def _is_term_met(term: SearchTerm, line: PageLine) -> bool:
    found = any(_has_value(term.key, value, line) for value in term.values)
    return found != term.negated


def _has_value(key: str, value: Value, line: PageLine) -> bool:
    if isinstance(value, WordValue):
        text = _WORDS[key](line)
        return text.startswith(value.text) if value.prefix else text == value.text
    assert isinstance(value, NumberSpan)
    number = _NUMBERS[key](line)
    return number is not None and is_within(number, value)
