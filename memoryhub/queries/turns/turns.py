"""Turns: the model calls of a thread, and what each request was made of.

Never writes, and never packs: what was recorded is put together again or not shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import orjson

from memoryhub.errors import NotFoundError, NotRecordedError
from memoryhub.journal.log import log
from memoryhub.journal.rows import projections
from memoryhub.kernel.levels import block_lines, costs
from memoryhub.kernel.levels.contexts import Recall, Ref
from memoryhub.kernel.levels.lines import shown_text
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import estimate
from memoryhub.kernel.messages.words import words
from memoryhub.kernel.packing import packers
from memoryhub.kernel.packing.cuts import Cut
from memoryhub.kernel.paging import recall_use
from memoryhub.kernel.search import excerpts
from memoryhub.kernel.state.page_events import (
    PageFaulted,
    PageReferenced,
    TurnBegan,
    TurnPacked,
)
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.state.state import Segment, ThreadState
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.threads.events import rows_at
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.turns import contexts
from memoryhub.queries.turns.contexts import Recorded
from memoryhub.queries.turns.inclusions import Inclusion, Inclusions

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLine:
    """A turn as it is listed."""

    n: int
    #: The thread it was read from.
    thread: UUID
    #: Whose journal has it: `thread`, or the ancestor it was inherited from.
    home: UUID
    #: Of its turn.began.
    seq: int
    #: Of its turn.packed; None while no context is recorded.
    packed_seq: int | None
    packed: TurnPacked | None
    #: Counts of paging in this turn; none for the newest, which goes on.
    moved: Counts
    #: Of the last exchanges, as of its end; None while it goes on.
    resident_rate: float | None

    @property
    def inherited(self) -> bool:
        return self.home != self.thread

    @property
    def pages(self) -> int:
        """How many texts its request was made of."""
        if self.packed is None:
            return 0
        return sum(len(section.refs) for section in self.packed.sections)

    @property
    def recalled(self) -> int:
        """How many texts its request brought along unasked."""
        if self.packed is None or self.packed.recall is None:
            return 0
        return len(self.packed.recall.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSection:
    """A section of a request."""

    name: str
    bytes: int
    tokens: int
    refs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A text in a request, in its order."""

    place: int
    section: str
    #: Empty when the text is gone and nothing says whose it was.
    page_id: str
    #: The text was erased.
    gone: bool
    level: int
    #: The event whose payload has the text; None when it is an ancestor's.
    seq: int | None
    #: Characters kept of it; 0 for a result that is only named.
    cut: int | None
    #: Only parts of it that were fetched are shown.
    part: bool
    recalled: bool
    #: None when it is gone.
    text: Opened | None
    #: None when the text is gone.
    tokens: int | None
    #: Its bytes in the request, from the first to behind the last; None with gaps, and
    #: where nobody asked for ranges.
    range: tuple[int, int] | None
    #: What the state that was packed says of it; None when that held no such page.
    inclusion: Inclusion | None
    #: Of what the turn brought along: how it was found, the words of the question that
    #: stand in it, and whether somebody used it in time.
    source: str = ""
    shared: tuple[str, ...] = ()
    used: bool = False

    @property
    def whole(self) -> bool:
        """Tell whether the request showed all of the page, erased since or not."""
        return not (self.level or self.part or self.cut is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A recorded request with what became of it."""

    recorded: Recorded
    parts: tuple[RequestSection, ...]
    used: tuple[Used, ...]
    #: What it shows only in part.
    cuts: tuple[Cut, ...]
    #: None when a part of it was erased.
    request: bytes | None
    missing: tuple[str, ...]
    verified: bool
    #: Payloads that were opened to put it together.
    payloads: int
    #: What it was packed of.
    state: ThreadState
    #: All that was opened for it, pages that were only offered included.
    texts: Mapping[Location, Opened]

    @property
    def event(self) -> TurnPacked:
        return self.recorded.event


def list_turns(
    thread: Thread,
    *,
    up_to: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> Batch[TurnLine]:
    """List turns begun at or before seq `up_to`, newest first, inherited ones last.

    Two queries, one more for each ancestor read. Raises BadCursorError when `after` is
    not of this very list.
    """
    listing = Listing(
        name="turns", project=thread.project_id, filters=[str(thread.id), up_to]
    )
    # From the last one shown: its counts are where the next one ended.
    last = None if after is None else listing.open(after)[0]
    found = _rows(get_segments(thread, up_to=up_to), last=last, limit=limit + 2)
    following = None
    if after is not None and found:
        following = orjson.loads(found.pop(0).counters)
    batch = found[:limit]
    more = len(found) > limit
    return Batch(
        items=_lines(thread, batch, following),
        next=listing.seal([batch[-1].n]) if more else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """How a turn began."""

    at: datetime
    mode: str | None
    continues: bool
    over_budget: bool


def how_began(lines: Sequence[TurnLine]) -> dict[int, Began]:
    """Return how each of these turns began, by its number. One query."""
    rows = rows_at(((line.home, line.seq) for line in lines), content=False)
    found: dict[int, Began] = {}
    for row in rows.values():
        event = log.recorded(row).event
        assert isinstance(event, TurnBegan)
        found[event.n] = Began(
            at=row.at,
            mode=event.mode,
            continues=event.continues,
            over_budget=event.over_budget,
        )
    return found


def get_turn(thread: Thread, n: int) -> TurnLine:
    """Return one turn, recorded or not.

    Two queries, one more for each ancestor read. Raises NotFoundError for one that has
    not begun.
    """
    if not 0 < n <= thread.turn_count:
        raise NotFoundError
    rows = _rows(get_segments(thread), last=n + 1, limit=2)
    following = orjson.loads(rows.pop(0).counters) if rows[0].n > n else None
    return _lines(thread, rows[:1], following)[0]


def list_around(thread: Thread, n: int, *, before: int, after: int) -> list[TurnLine]:
    """List a turn between those before and after it, oldest first.

    Two queries, one more for each ancestor read. Raises NotFoundError for one that has
    not begun.
    """
    if not 0 < n <= thread.turn_count:
        raise NotFoundError
    most = 1 + before + after
    rows = _rows(get_segments(thread), last=n + after + 1, limit=most + 1)
    following = None
    if rows[0].n > n + after:
        following = orjson.loads(rows.pop(0).counters)
    lines = _lines(thread, rows, following)
    return [line for line in reversed(lines) if line.n >= n - before]


def get_packed_tokens(
    thread: Thread, turns: Collection[int], *, up_to: int
) -> dict[int, int]:
    """Return what each of these turns packed, by its number, as of seq `up_to`.

    Turns without a record are left out. Two queries, one more for each ancestor.
    """
    rows = [
        row
        for part in get_segments(thread, up_to=up_to)
        for row in Turn.objects.filter(
            thread_id=part.thread, n__in=turns, packed_seq__lte=part.up_to_seq
        )
    ]
    return {n: event.tokens for n, event in _packed(rows).items()}


def get_context(thread: Thread, n: int, *, with_ranges: bool = False) -> Shown | None:
    """Assemble the request of a turn again.

    `with_ranges` also finds where each text stands in it, which takes as long again.
    None when it was never recorded. At most four queries for the record, three for the
    state it was packed of, one for its texts and one for each that is gone. `thread`
    comes with its subject. Raises NotFoundError.
    """
    try:
        recorded = contexts.recorded(thread, n)
    except NotRecordedError:
        return None
    whole = contexts.reassemble(thread, recorded)
    own = recorded.home.id
    places = contexts.record_places(recorded.record, own)
    opened, inclusions = whole.texts, Inclusions(recorded)
    cuts = contexts.cuts_of(recorded, opened)
    return Shown(
        recorded=recorded,
        parts=tuple(
            RequestSection(
                name=s.name, bytes=s.bytes, tokens=s.tokens, refs=len(s.refs)
            )
            for s in recorded.record.sections
        ),
        used=tuple(
            _with_recall(
                recorded,
                _used_in(
                    recorded,
                    opened,
                    inclusions,
                    cuts,
                    inherited=own != thread.id,
                    with_ranges=with_ranges,
                ),
            )
        ),
        cuts=cuts,
        request=whole.request,
        missing=whole.missing,
        verified=whole.verified,
        payloads=len({(place.thread, place.seq) for place in places}),
        state=inclusions.state,
        texts=opened,
    )


def _used_in(
    recorded: Recorded,
    opened: Mapping[Location, Opened],
    inclusions: Inclusions,
    cuts: Iterable[Cut],
    *,
    inherited: bool,
    with_ranges: bool,
) -> Iterator[Used]:
    shown = {cut.page_id: cut.shown_tokens for cut in cuts}
    record, own = recorded.record, recorded.home.id
    refs = [(s.name, ref) for s in record.sections for ref in s.refs]
    ranges: list[tuple[int, int]] | list[None] = [None] * len(refs)
    if with_ranges and opened.keys() >= {*contexts.record_places(record, own)}:
        ranges = packers.PACKERS[record.packer].ranges(record, opened, thread=own)
    blocks = {
        text.page_id: text
        for ref in record.refs("blocks")
        if (text := opened.get(ref.location(own))) is not None
    }
    for place, (name, ref) in enumerate(refs, start=1):
        text, inclusion = opened.get(ref.location(own)), inclusions.of(ref)
        page = text or inclusion
        tokens = _count_tokens(text, ref, shown, inclusion) if text else None
        if text and name == "added" and text.page_id in blocks:
            # The head has the block as it was before: this tells the rest alone.
            tokens = estimate(block_lines.addition(blocks[text.page_id], text))
        yield Used(
            place=place,
            section=name,
            page_id=page.page_id if page else "",
            gone=text is None,
            level=ref.level,
            seq=None if inherited or ref.thread is not None else ref.seq,
            cut=ref.cut,
            part=ref.part is not None,
            recalled=ref.recalled,
            text=text,
            tokens=tokens,
            range=ranges[place - 1],
            inclusion=inclusion,
        )


def _count_tokens(
    text: Opened, ref: Ref, shown: Mapping[str, int], inclusion: Inclusion | None
) -> int:
    if ref.cut is not None:
        return shown.get(text.page_id, 0)
    if inclusion is not None and inclusion.cost is not None:
        # To count 960 texts again took a sixth of the time of their page.
        return inclusion.cost
    return costs.cost(text, level=ref.level)


def _with_recall(recorded: Recorded, found: Iterable[Used]) -> Iterator[Used]:
    """Say of texts that the turn brought along why, and what became of them.

    Two queries where there are any.
    """
    used, recall = [*found], recorded.record.recall
    if recall is None:
        yield from used
        return
    opening = next((each for each in used if each.section == "exchange"), None)
    question = opening.text and words(opening.text.message) if opening else ""
    wanted = {*_wanted(recorded, recall)}
    brought = zip(recall.pages, recall.sources, strict=True)
    for each in used:
        if each.section != "recall":
            yield each
            continue
        page_id, source = next(brought)
        text = shown_text(each.text) if each.text else ""
        yield replace(
            each,
            page_id=page_id or "",
            source=source,
            shared=tuple(excerpts.shared(question or "", text)),
            used=page_id in wanted,
        )


def _wanted(recorded: Recorded, recall: Recall) -> Iterable[str | None]:
    """Pages that somebody referred to or asked for while they were awaited."""
    home, last = recorded.home, recall.turn + recall_use.TURNS
    # The turn that brought them may lie before the one that is looked at.
    turns = Turn.objects.filter(thread=home, n__in=(recall.turn, last))
    began = dict(turns.values_list("n", "seq"))
    end = began.get(last)
    rows = Event.objects.filter(
        thread=home,
        page__in=[each for each in recall.pages if each],
        seq__gt=began[recall.turn],
        type__in=(PageReferenced.event_type, PageFaulted.event_type),
    )
    rows = rows if end is None else rows.filter(seq__lt=end)
    return rows.values_list("page", flat=True)


def _rows(parts: Sequence[Segment], *, last: int | None, limit: int) -> list[Turn]:
    """Turns up to number `last`, newest first. One query for each thread read."""
    found: list[Turn] = []
    for part in reversed(parts):
        if len(found) == limit:
            break
        rows = Turn.objects.filter(thread_id=part.thread, seq__lte=part.up_to_seq)
        if last is not None:
            rows = rows.filter(n__lte=last)
        for row in rows.order_by("-n")[: limit - len(found)]:
            # Packed after the fork: not a part of what that inherits.
            if row.packed_seq is not None and row.packed_seq > part.up_to_seq:
                row.packed_seq = None
            found.append(row)
    return found


def _lines(
    thread: Thread, rows: Sequence[Turn], following: Counts | None
) -> tuple[TurnLine, ...]:
    """These turns, newest first; `following` are the counts after the newest."""
    packed = _packed(rows)
    found: list[TurnLine] = []
    for row in rows:
        began: Counts = orjson.loads(row.counters)
        found.append(
            TurnLine(
                n=row.n,
                thread=thread.id,
                home=row.thread_id,
                seq=row.seq,
                packed_seq=row.packed_seq,
                packed=packed.get(row.n),
                moved=differences(began, following) if following else {},
                resident_rate=projections.rate_of(following or {}),
            )
        )
        following = began
    return tuple(found)


def differences(before: Counts, after: Counts) -> dict[str, int]:
    """Return how much each counter moved."""
    return {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] != before.get(name, 0)
    }


def _packed(rows: Sequence[Turn]) -> dict[int, TurnPacked]:
    """By the turn's number. One query."""
    places = [(row.thread_id, row.packed_seq) for row in rows if row.packed_seq]
    found: dict[int, TurnPacked] = {}
    for stored in rows_at(places, content=False).values():
        event = log.recorded(stored).event
        assert isinstance(event, TurnPacked)
        found[event.turn] = event
    return found
