"""Turns: the model calls of a thread, and what each request was made of.

Never writes, and never packs: what was recorded is put together again or not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from memoryhub.errors import NotFoundError, NotRecordedError
from memoryhub.journal import log, texts
from memoryhub.kernel import costs
from memoryhub.kernel.contexts import Ref
from memoryhub.kernel.opened import Opened
from memoryhub.kernel.page_events import TurnBegan, TurnPacked
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries import contexts
from memoryhub.queries.contexts import Recorded
from memoryhub.queries.cursors import Batch, Listing

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLine:
    """A turn as it is listed."""

    n: int
    #: Of its turn.began.
    seq: int
    #: Of its turn.packed; None while no context is recorded.
    packed_seq: int | None
    packed: TurnPacked | None
    #: Counts of paging in this turn; none for the newest, which goes on.
    moved: Counts

    @property
    def pages(self) -> int:
        """How many texts its request was made of."""
        if self.packed is None:
            return 0
        return sum(len(section.refs) for section in self.packed.sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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
    level: int
    #: The event whose payload has the text; None when it is an ancestor's.
    seq: int | None
    #: Characters kept of it.
    cut: int | None
    recalled: bool
    #: None when the text is gone.
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A recorded request with what became of it."""

    recorded: Recorded
    parts: tuple[Part, ...]
    used: tuple[Used, ...]
    #: None when a part of it was erased.
    request: bytes | None
    missing: tuple[str, ...]
    verified: bool
    #: Payloads that were opened to put it together.
    payloads: int

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
    """Turns begun at or before seq `up_to`, newest first; of a fork, its own.

    Two queries. Raises BadCursorError when `after` is not of this very list.
    """
    listing = Listing(
        name="turns", project=thread.project_id, filters=[str(thread.id), up_to]
    )
    rows = Turn.objects.filter(thread_id=thread.id)
    if up_to is not None:
        rows = rows.filter(seq__lte=up_to)
    if after is not None:
        # From the last one shown: its counts are where the next one ended.
        rows = rows.filter(n__lte=listing.open(after)[0])
    found = list(rows.order_by("-n")[: limit + 2])
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


def how_began(thread: Thread, lines: Sequence[TurnLine]) -> dict[int, Began]:
    """How each of the thread's own turns began, by the seq it began with. One query."""
    rows = Event.objects.defer("payload").filter(
        thread_id=thread.id, seq__in=[line.seq for line in lines]
    )
    found: dict[int, Began] = {}
    for row in rows:
        event = log.recorded(row).event
        assert isinstance(event, TurnBegan)
        found[row.seq] = Began(
            at=row.at,
            mode=event.mode,
            continues=event.continues,
            over_budget=event.over_budget,
        )
    return found


def get_turn(thread: Thread, n: int) -> TurnLine:
    """One turn of the thread itself, recorded or not. Two queries.

    Raises NotFoundError for one that has not begun or is an ancestor's.
    """
    rows = list(
        Turn.objects.filter(thread_id=thread.id, n__in=(n, n + 1)).order_by("n")
    )
    if not rows or rows[0].n != n:
        raise NotFoundError
    following = orjson.loads(rows[1].counters) if len(rows) > 1 else None
    return _lines(thread, rows[:1], following)[0]


def get_context(thread: Thread, n: int) -> Shown | None:
    """The request of a turn, put together again. None when it was never recorded.

    At most four queries for the record, one for its texts and one for each that is
    gone. `thread` comes with its subject. Raises NotFoundError.
    """
    try:
        recorded = contexts.recorded(thread, n)
    except NotRecordedError:
        return None
    whole = contexts.reassemble(thread, recorded)
    own = recorded.home.id
    places = contexts.record_places(recorded.record, own)
    # From memory, but for what did not fit into it.
    opened = texts.opened(thread, places)
    refs = [(s.name, ref) for s in recorded.record.sections for ref in s.refs]
    return Shown(
        recorded=recorded,
        parts=tuple(
            Part(name=s.name, bytes=s.bytes, tokens=s.tokens, refs=len(s.refs))
            for s in recorded.record.sections
        ),
        used=tuple(
            _used(place, name, ref, opened.get(ref.location(own)), own=own == thread.id)
            for place, (name, ref) in enumerate(refs, start=1)
        ),
        request=whole.request,
        missing=whole.missing,
        verified=whole.verified,
        payloads=len({(place.thread, place.seq) for place in places}),
    )


def _used(
    place: int, section: str, ref: Ref, text: Opened | None, *, own: bool
) -> Used:
    return Used(
        place=place,
        section=section,
        page_id=text.page_id if text else "",
        level=ref.level,
        seq=ref.seq if own and ref.thread is None else None,
        cut=ref.cut,
        recalled=ref.recalled,
        tokens=costs.cost(text, level=ref.level) if text and not ref.cut else None,
    )


def _lines(
    thread: Thread, rows: Sequence[Turn], following: Counts | None
) -> tuple[TurnLine, ...]:
    """These turns, newest first; `following` are the counts after the newest."""
    packed = _packed(thread, [row.packed_seq for row in rows if row.packed_seq])
    found: list[TurnLine] = []
    for row in rows:
        began: Counts = orjson.loads(row.counters)
        found.append(
            TurnLine(
                n=row.n,
                seq=row.seq,
                packed_seq=row.packed_seq,
                packed=packed.get(row.packed_seq or 0),
                moved=differences(began, following) if following else {},
            )
        )
        following = began
    return tuple(found)


def differences(before: Counts, after: Counts) -> dict[str, int]:
    """What each counter moved by."""
    return {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] != before.get(name, 0)
    }


def _packed(thread: Thread, seqs: Sequence[int]) -> dict[int, TurnPacked]:
    rows = Event.objects.defer("payload").filter(thread_id=thread.id, seq__in=seqs)
    found: dict[int, TurnPacked] = {}
    for row in rows:
        event = log.recorded(row).event
        assert isinstance(event, TurnPacked)
        found[row.seq] = event
    return found
