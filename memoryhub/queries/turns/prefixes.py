"""The prefix lens on recorded turns: what providers can keep of a request, and why not
more. Never writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from django.conf import settings

from memoryhub.journal.log import log
from memoryhub.journal.writing import texts
from memoryhub.kernel.levels.contexts import Ref
from memoryhub.kernel.packing import prefixes
from memoryhub.kernel.packing.prefixes import Break, Common, Request
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.turns import turn_diffs
from memoryhub.kernel.turns.turn_diffs import Change, Happened, Reason
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.turns import contexts
from memoryhub.queries.turns.turn_diffs import Side, get_side, iter_between

#: Turns of a series.
SERIES = 200
#: Why a prefix ended. The first four are those that break the order of the context;
#: `exchange` and `entered` only add to it. `budget`: cut or left out for want of room.
#: `first`: there was none before.
Cause = Literal[
    "evicted",
    "lowered",
    "upgraded",
    "updated",
    "exchange",
    "entered",
    "budget",
    "manifest",
    "recall",
    "rules",
    "blocks",
    "tools",
    "same",
    "first",
]
_OF_KIND: dict[str, Cause] = {
    "left": "evicted",
    "lowered": "lowered",
    "upgraded": "upgraded",
    "updated": "updated",
}
_SIDES: dict[str, Cause] = {
    "manifest": "manifest",
    "recall": "recall",
    "rules": "rules",
    "blocks": "blocks",
    "added": "blocks",
    "tools": "tools",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a request costs by one row of the price table, in its currency."""

    name: str
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens:
    """A turn's request held against that of the turn before."""

    turn: int
    #: Of the whole request.
    tokens: int
    bytes: int
    #: In common with the one before, in whole blocks; of bytes None when a text that
    #: would have to be compared is gone.
    prefix_tokens: int | None
    prefix_bytes: int | None
    #: Where it ends: a section, and the place in it; empty when it does not.
    section: str
    place: int
    #: The page whose ref broke it.
    page_id: str | None
    cause: Cause
    #: The event behind it; None for pages that only found no room.
    reason: Reason | None
    costs: tuple[Cost, ...]

    @property
    def share(self) -> float | None:
        return share(self.prefix_tokens, self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A turn in the series, as it was recorded."""

    turn: int
    seq: int
    tokens: int
    prefix_tokens: int | None
    costs: tuple[Cost, ...]

    @property
    def share(self) -> float | None:
        return share(self.prefix_tokens, self.tokens)


def share(prefix: int | None, tokens: int) -> float | None:
    return None if prefix is None or not tokens else prefix / tokens


def list_points(
    thread: Thread, *, up_to: int | None = None, limit: int = SERIES, block: int = 1
) -> list[Point]:
    """List the newest recorded turns of the thread itself up to one, oldest first.

    Two queries. As recorded, so an erased page changes nothing; `prefix_tokens` is None
    for a turn after one that was not recorded.
    """
    rows = Turn.objects.filter(thread=thread, packed_seq__isnull=False)
    if up_to is not None:
        rows = rows.filter(n__lte=up_to)
    seqs = rows.order_by("-n").values_list("packed_seq", flat=True)[:limit]
    stored = Event.objects.filter(thread=thread, seq__in=[*seqs]).defer("payload")
    return [_point(row, block) for row in stored.order_by("seq")]


def _point(row: Event, block: int) -> Point:
    event = log.recorded(row).event
    assert isinstance(event, TurnPacked)
    prefix = _in_blocks(event.prefix_tokens, block)
    return Point(
        turn=event.turn,
        seq=row.seq,
        tokens=event.tokens,
        prefix_tokens=prefix,
        costs=costs(event.tokens, prefix),
    )


def get_lens(thread: Thread, turn: int, *, block: int = 1) -> Lens:
    """Compare a turn with the one before.

    Before the first there is nothing, so its prefix is empty. `thread` comes with its
    subject. A constant number of queries a lineage. Raises NotFoundError for a turn
    that has not begun, NotRecordedError when its request or the one before was not
    packed here.
    """
    if turn == 1:
        return _first(get_side(thread, turn))
    before, now = get_side(thread, turn - 1), get_side(thread, turn)
    previous, request = _requests(thread, before, now)
    found = prefixes.parting(previous, request)
    shared = _common(previous, request)
    record = now.recorded.record
    prefix = _in_blocks(now.recorded.event.prefix_tokens, block)
    behind = _behind(found, before, now, list(iter_between(before, now)))
    return Lens(
        turn=turn,
        tokens=record.tokens,
        bytes=record.bytes,
        prefix_tokens=prefix,
        prefix_bytes=shared.bytes if shared else None,
        section=found.section if found else "",
        place=found.place if found else 0,
        page_id=behind.page_id,
        cause=behind.cause,
        reason=behind.reason,
        costs=costs(record.tokens, prefix),
    )


def _first(now: Side) -> Lens:
    record = now.recorded.record
    return Lens(
        turn=now.turn,
        tokens=record.tokens,
        bytes=record.bytes,
        prefix_tokens=0,
        prefix_bytes=0,
        section=next((section.name for section in record.sections), ""),
        place=0,
        page_id=None,
        cause="first",
        reason=_began(now),
        costs=costs(record.tokens, 0),
    )


def costs(tokens: int, prefix: int | None) -> tuple[Cost, ...]:
    """Return the cost by every row of the price table; none without both."""
    if prefix is None:
        return ()
    return tuple(
        Cost(
            name=name,
            amount=prefixes.cost(
                tokens, prefix, price=row.price, cached_price=row.cached
            ),
        )
        for name, row in sorted(settings.PRICES.items())
    )


def _in_blocks(tokens: int | None, block: int) -> int | None:
    return None if tokens is None else prefixes.in_blocks(tokens, block)


def _requests(thread: Thread, before: Side, now: Side) -> tuple[Request, Request]:
    sides = (before, now)
    places = {
        place
        for side in sides
        for place in contexts.record_places(side.recorded.record, side.thread)
    }
    opened = texts.opened(thread, places)
    one, other = (
        Request(
            record=side.recorded.record,
            texts=opened,
            thread=side.thread,
        )
        for side in sides
    )
    return one, other


def _common(previous: Request, request: Request) -> Common | None:
    try:
        counted = tokenizers.nearest(request.record.tokenizer)
        return prefixes.common(previous, request, count=counted.count)
    except KeyError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behind:
    cause: Cause
    page_id: str | None = None
    reason: Reason | None = None


def _behind(
    found: Break | None, before: Side, now: Side, between: Sequence[Happened]
) -> _Behind:
    """What ended the prefix there."""
    if found is None:
        return _Behind(cause="same")
    if found.section in _SIDES:
        # They change with every turn, or with its mode.
        return _Behind(cause=_SIDES[found.section], reason=_began(now))
    frames = (before.paging.frames, now.paging.frames)
    changes = {each.page_id: each for each in turn_diffs.changes(*frames, between)}
    old = changes.get(_page_id(found.before, before))
    new = changes.get(_page_id(found.after, now))
    if old is not None and (old.moved or old.kind in _OF_KIND):
        return _broken(old)
    if found.section == "exchange" or _joined(found, before, now):
        opener = changes.get(_opener(now))
        first = new if found.section == "exchange" and new else opener
        reason = first.reason if first and first.kind == "entered" else None
        page_id = _id(new or old)
        return _Behind(cause="exchange", page_id=page_id, reason=reason or _began(now))
    if new is not None and (new.kind == "entered" or new.moved):
        return _Behind(cause="entered", page_id=new.page_id, reason=new.reason)
    return _Behind(cause="budget", page_id=_id(old or new))


def _id(change: Change | None) -> str | None:
    return change.page_id if change else None


def _broken(change: Change) -> _Behind:
    """A page that no longer stands there as it stood."""
    cause = _OF_KIND.get(change.kind, "evicted")
    # It left, whether or not it came back elsewhere.
    reason = change.removal if cause == "evicted" else change.reason
    return _Behind(cause=cause, page_id=change.page_id, reason=reason)


def _joined(found: Break, before: Side, now: Side) -> bool:
    """Whether what stands there now was in the exchange before, which moved on."""
    if found.after is None:
        return False
    return _page_id(found.after, now) in {
        _page_id(ref, before) for ref in _exchange(before)
    }


def _opener(side: Side) -> str:
    """The page that the exchange begins with."""
    return next((_page_id(ref, side) for ref in _exchange(side)), "")


def _exchange(side: Side) -> Iterator[Ref]:
    for section in side.recorded.record.sections:
        if section.name == "exchange":
            yield from section.refs


def _page_id(ref: Ref | None, side: Side) -> str:
    """The page that stands at a ref in the side's working set; empty if none does."""
    if ref is None:
        return ""
    place = ref.location(side.thread)
    for frame in side.paging.frames.values():
        if any(held and held.location == place for held in frame.entry.levels):
            return frame.page_id
    return ""


def _began(side: Side) -> Reason:
    """The event that began the turn. One query."""
    rows = Turn.objects.filter(thread_id=side.thread, n=side.turn)
    seq = rows.values_list("seq", flat=True).get()
    return Reason(
        thread=side.thread, seq=seq, type="turn.began", cause="turn", by="tool"
    )
