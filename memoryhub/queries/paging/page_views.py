"""Pages as people look at them: levels side by side, versions, history, the table.

Never writes, and looks nothing up in the sense of the TLB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from memoryhub.journal.rows.page_rows import entry_of
from memoryhub.journal.writing import texts
from memoryhub.kernel.levels.opened import Opened, body
from memoryhub.kernel.state.pages import LEVEL_NAMES, Entry
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.lists.terms import SearchTerm, Span, Value, Word, within
from memoryhub.queries.paging import lives, page_uses, pages, residency
from memoryhub.queries.paging.lives import Life
from memoryhub.queries.paging.page_uses import Uses
from memoryhub.queries.paging.pages import Also, PageFilter, PageLine
from memoryhub.queries.paging.residency import Why
from memoryhub.queries.replay import states
from memoryhub.queries.threads import evicted_pages
from memoryhub.queries.threads.forks import get_segments

#: Events of a page that its view tells; older ones are found among the thread's events.
HISTORY = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelView:
    """One level of the version at hand."""

    level: int
    tokens: int
    #: Of FULL's tokens, how many this one saves.
    saved: int
    producer: str
    mapped: bool
    #: The event whose payload has it; None when it is an ancestor's.
    seq: int | None
    #: The text, or the JSON value; None when it is gone.
    content: Any

    @property
    def name(self) -> str:
        return LEVEL_NAMES[self.level]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version that was, or is."""

    n: int
    seq: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened to the page."""

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
    #: None while it is not mapped.
    why: Why | None
    recalled: bool
    levels: tuple[LevelView, ...]
    versions: tuple[Version, ...]
    provenance: tuple[str, ...]
    #: Newest first, at most `HISTORY`.
    history: tuple[Step, ...]
    more_history: bool
    #: The newest eviction from the working set that is told.
    evicted: Step | None
    uses: Uses
    #: The page table's entry is at hand: a look-up would hit.
    in_tlb: bool
    #: From its making to now, whatever the moment.
    life: Life
    #: The clock of the moment, and that of the thread by now.
    clock: int
    head: int
    #: Turns with the clocks at which they began, for an axis.
    ticks: tuple[tuple[int, int], ...]

    @property
    def entry(self) -> Entry:
        return self.line.entry

    @property
    def erased(self) -> bool:
        return any(level.content is None for level in self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedPage:
    """What is known of a page that was deleted; its fields are as in `PageView`."""

    life: Life
    head: int
    ticks: tuple[tuple[int, int], ...]


def get_page(thread: Thread, page_id: str, *, seq: int) -> PageView:
    """Return a page as of `seq`.

    At most eighteen queries, more in a fork for what is inherited. `thread` comes with
    its subject. Raises PageUnknownError, PageErasedError.
    """
    state, parts = states.state_of(thread, seq), get_segments(thread)
    entry = pages.find_entry(state, page_id)
    rows = PageLevel.objects.filter(
        thread_id=thread.id, page_id=page_id, seq__lte=seq
    ).order_by("version", "level")
    levels = list(rows)
    history = _history(thread, page_id, seq=seq)
    frame = state.paging.frames.get(page_id)
    uses = page_uses.get_uses(state, entry, levels)
    life = lives.get_lives(parts, {page_id: entry}, state.paging.frames)[page_id]
    brought = ((use.turn, use.seq) for use in uses.carried if use.section == "recall")
    return PageView(
        line=pages.line_of(state, entry),
        letter=residency.letter(entry),
        resident_tokens=frame.tokens if frame else None,
        why=residency.why_of(state, page_id),
        recalled=bool(frame and frame.recalled),
        levels=_levels(thread, entry, levels, frame.level if frame else None),
        versions=_versions(entry, levels),
        provenance=()
        if entry.slot is not None
        else pages.get_provenance(state, page_id),
        history=history[:HISTORY],
        more_history=len(history) > HISTORY,
        evicted=next((step for step in history if _evicts(step)), None),
        uses=uses,
        in_tlb=state.paging.tlb.find(page_id) is not None,
        life=lives.with_recalled(life, parts, brought),
        clock=state.clock,
        head=sum(part.up_to_seq for part in parts),
        ticks=tuple(lives.get_ticks(parts, thread.turn_count)),
    )


def get_deleted(thread: Thread, page_id: str) -> DeletedPage:
    """Return what is known of a page that is gone. Six queries."""
    parts = get_segments(thread)
    rows = Page.objects.filter(thread__in=[part.thread for part in parts])
    row = rows.filter(page_id=page_id).order_by("seq").last()
    made = None if row is None else entry_of(row, ())
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
) -> Batch[PageLine]:
    """List the page table as of `seq` like `pages.list_pages`, narrowed by a search.

    Three queries beside its own. Raises BadCursorError as it does.
    """
    also = Also(
        plain=[term.plain() for term in terms],
        matches=lambda line: all(_matches(term, line) for term in terms),
    )
    return pages.list_pages(
        thread,
        states.state_of(thread, seq),
        where=_narrowed(terms),
        also=also,
        after=after,
        limit=limit,
    )


def _levels(
    thread: Thread, entry: Entry, rows: Iterable[PageLevel], mapped: int | None
) -> tuple[LevelView, ...]:
    """Those that exist, with their texts. One query a thread of the lineage."""
    there = [(n, level) for n, level in enumerate(entry.levels) if level is not None]
    opened = texts.opened(thread, [level.location for _, level in there])
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
            content=_content(opened.get(level.location), n),
        )
        for n, level in there
    )


def _content(opened: Opened | None, level: int) -> Any:
    return None if opened is None else body(opened, level=level)


def _versions(entry: Entry, rows: Iterable[PageLevel]) -> tuple[Version, ...]:
    full = entry.full
    olds = [
        Version(n=row.version, seq=row.seq, tokens=row.tokens)
        for row in rows
        if row.level == 0 and row.version != entry.version
    ]
    now = Version(n=entry.version, seq=full.location.seq, tokens=full.tokens)
    return (*olds, now)


def _history(thread: Thread, page_id: str, *, seq: int) -> tuple[Step, ...]:
    rows = Event.objects.filter(thread_id=thread.id, page=page_id, seq__lte=seq)
    newest = rows.defer("payload").order_by("-seq")[: HISTORY + 1]
    journals = [(thread.id, seq)]
    joined = evicted_pages.list_places(journals, [page_id], newest=HISTORY + 1)
    among = Event.objects.at_places(place for place, _ in joined).defer("payload")
    found = sorted([*newest, *among], key=attrgetter("seq"), reverse=True)
    return tuple(_step(row, page_id) for row in found[: HISTORY + 1])


def _step(row: Event, page_id: str) -> Step:
    return Step(
        seq=row.seq,
        at=row.at,
        type=row.type,
        actor=row.actor,
        body=evicted_pages.narrow_to_page(row.type, orjson.loads(row.body), page_id),
    )


def _evicts(step: Step) -> bool:
    return step.type in evicted_pages.EVICTED and step.body.get("tier_before") == "L0"


# The table


def _narrowed(terms: Sequence[SearchTerm]) -> PageFilter:
    """What of a search the rows themselves can be asked for."""
    fields: dict[str, Any] = {}
    for term in terms:
        if term.negated or len(term.values) > 1:
            continue
        (value,) = term.values
        if term.key in ("tier", "type", "modality") and isinstance(value, Word):
            fields[term.key] = value.text
        elif term.key == "level":
            fields["tier"] = "L0"
        elif term.key == "pinned" and value == Word(text="yes"):
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


def _matches(term: SearchTerm, line: PageLine) -> bool:
    found = any(_holds(term.key, value, line) for value in term.values)
    return found != term.negated


def _holds(key: str, value: Value, line: PageLine) -> bool:
    if isinstance(value, Word):
        text = _WORDS[key](line)
        return text.startswith(value.text) if value.prefix else text == value.text
    assert isinstance(value, Span)
    number = _NUMBERS[key](line)
    return number is not None and within(number, value)
