"""Prefix lens: tokens that a turn's request shares with the previous turn's request.

Providers can cache the shared prefix. The lens also names what ended the prefix. Never
writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from memoryhub.journal import texts
from memoryhub.journal.log import log
from memoryhub.kernel.context.contexts import Ref
from memoryhub.kernel.packing import prefixes
from memoryhub.kernel.packing.prefixes import CommonPrefix, PrefixBreak, RecordedRequest
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.turns import turn_diffs
from memoryhub.kernel.turns.turn_diffs import ChangeReason, FrameChange, LocatedEvent
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.turns import contexts, prices
from memoryhub.queries.turns.prices import PriceTable
from memoryhub.queries.turns.turn_diffs import TurnSide, get_side, iter_between

#: Maximum number of turns in a series.
SERIES = 200
#: Why a prefix ended. The first four break the order of the context; `exchange` and
#: `entered` only add to it. `budget`: cut or left out for lack of room. `first`: no
#: turn came before.
PrefixCause = Literal[
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
    "log",
    "tools",
    "same",
    "first",
]
#: Causes by what happened to the page that ended the prefix.
_OF_KIND: dict[str, PrefixCause] = {
    "left": "evicted",
    "lowered": "lowered",
    "upgraded": "upgraded",
    "updated": "updated",
}
#: Causes by the section that ended the prefix, where the section says enough.
_SIDES: dict[str, PrefixCause] = {
    "manifest": "manifest",
    "recall": "recall",
    "rules": "rules",
    "blocks": "blocks",
    "added": "blocks",
    "log": "log",
    "tools": "tools",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCost:
    """The cost of a request, without its answer, by one row of the price table."""

    name: str
    amount: float
    #: Empty: the table names no currency.
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixLens:
    """The comparison of a turn's request with the previous turn's."""

    turn: int
    #: Size of the whole request.
    tokens: int
    bytes: int
    #: Size of the shared prefix, in whole blocks; bytes are None when a text
    #: to compare was erased.
    prefix_tokens: int | None
    prefix_bytes: int | None
    #: End of the prefix: a section, and the place in it; empty if the prefix did not
    #: end.
    section: str
    place: int
    #: The page whose ref ended the prefix.
    page_id: str | None
    cause: PrefixCause
    #: The event that ended the prefix; None for pages that only found no room.
    reason: ChangeReason | None
    costs: tuple[RequestCost, ...]

    @property
    def share(self) -> float | None:
        return compute_share(self.prefix_tokens, self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixPoint:
    """A recorded turn in the series."""

    turn: int
    seq: int
    tokens: int
    prefix_tokens: int | None
    costs: tuple[RequestCost, ...]

    @property
    def share(self) -> float | None:
        return compute_share(self.prefix_tokens, self.tokens)


def compute_share(prefix: int | None, tokens: int) -> float | None:
    return None if prefix is None or not tokens else prefix / tokens


def list_points(
    thread: Thread, *, up_to: int | None = None, limit: int = SERIES, block: int = 1
) -> list[PrefixPoint]:
    """List the newest recorded turns of the thread itself up to one, oldest first.

    Two queries; `thread` comes with its project. Values are as recorded, so an erased
    page changes nothing. `prefix_tokens` is None for a turn whose previous turn was not
    recorded.
    """
    rows = Turn.objects.filter(thread=thread, packed_seq__isnull=False)
    if up_to is not None:
        rows = rows.filter(n__lte=up_to)
    seqs = rows.order_by("-n").values_list("packed_seq", flat=True)[:limit]
    stored = Event.objects.filter(thread=thread, seq__in=[*seqs]).defer("payload")
    table = prices.get_table(thread.project)
    return [_build_point(row, block, table) for row in stored.order_by("seq")]


def _build_point(row: Event, block: int, table: PriceTable) -> PrefixPoint:
    event = log.to_recorded(row).event
    assert isinstance(event, TurnPacked)
    prefix = _round_to_blocks(event.prefix_tokens, block)
    return PrefixPoint(
        turn=event.turn,
        seq=row.seq,
        tokens=event.tokens,
        prefix_tokens=prefix,
        costs=list_costs(table, event.tokens, prefix),
    )


def get_lens(thread: Thread, turn: int, *, block: int = 1) -> PrefixLens:
    """Compare a turn's request with the previous turn's.

    The first turn has an empty prefix. `thread` comes with its subject and project. A
    constant number of queries per lineage. Raises NotFoundError for a turn that has not
    begun, NotRecordedError when this server did not pack one of the two requests.
    """
    if turn == 1:
        return _build_first(get_side(thread, turn), prices.get_table(thread.project))
    before, now = get_side(thread, turn - 1), get_side(thread, turn)
    previous, request = _build_requests(thread, before, now)
    found = prefixes.find_break(previous, request)
    shared = _find_common(previous, request)
    record = now.recorded.record
    prefix = _round_to_blocks(now.recorded.event.prefix_tokens, block)
    behind = _find_end(found, before, now, list(iter_between(before, now)))
    return PrefixLens(
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
        costs=list_costs(prices.get_table(thread.project), record.tokens, prefix),
    )


def _build_first(now: TurnSide, table: PriceTable) -> PrefixLens:
    record = now.recorded.record
    return PrefixLens(
        turn=now.turn,
        tokens=record.tokens,
        bytes=record.bytes,
        prefix_tokens=0,
        prefix_bytes=0,
        section=next((section.name for section in record.sections), ""),
        place=0,
        page_id=None,
        cause="first",
        reason=_get_turn_start(now),
        costs=list_costs(table, record.tokens, 0),
    )


def list_costs(
    table: PriceTable, tokens: int, prefix: int | None
) -> tuple[RequestCost, ...]:
    """List the costs by every row of the price table; empty without a prefix."""
    if prefix is None:
        return ()
    return tuple(
        RequestCost(
            name=name,
            amount=prefixes.compute_cost(
                tokens, prefix, price=row.price, cached_price=row.cached_price
            ),
            currency=table.currency,
        )
        for name, row in table.models.items()
    )


def _round_to_blocks(tokens: int | None, block: int) -> int | None:
    return None if tokens is None else prefixes.round_to_blocks(tokens, block)


def _build_requests(
    thread: Thread, before: TurnSide, now: TurnSide
) -> tuple[RecordedRequest, RecordedRequest]:
    sides = (before, now)
    places = {
        place
        for side in sides
        for place in contexts.list_places(side.recorded.record, side.thread)
    }
    opened = texts.open_texts(thread, places)
    one, other = (
        RecordedRequest(
            record=side.recorded.record,
            texts=opened,
            thread=side.thread,
        )
        for side in sides
    )
    return one, other


def _find_common(
    previous: RecordedRequest, request: RecordedRequest
) -> CommonPrefix | None:
    try:
        counted = tokenizers.get_nearest(request.record.tokenizer)
        return prefixes.measure_common_prefix(previous, request, count=counted.count)
    except KeyError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PrefixEnd:
    cause: PrefixCause
    page_id: str | None = None
    reason: ChangeReason | None = None


def _find_end(
    found: PrefixBreak | None,
    before: TurnSide,
    now: TurnSide,
    between: Sequence[LocatedEvent],
) -> _PrefixEnd:
    """Find the change that ended the prefix: a section, a page, or lack of room."""
    if found is None:
        return _PrefixEnd(cause="same")
    if found.section in _SIDES:
        # These sections change with every turn, or with the turn's mode.
        return _PrefixEnd(cause=_SIDES[found.section], reason=_get_turn_start(now))
    frames = (before.paging.frames, now.paging.frames)
    changes = {each.page_id: each for each in turn_diffs.list_changes(*frames, between)}
    old = changes.get(_find_page_id(found.before, before))
    new = changes.get(_find_page_id(found.after, now))
    if old is not None and (old.moved or old.kind in _OF_KIND):
        return _build_broken(old)
    if found.section == "exchange" or _is_from_exchange(found, before, now):
        opener = changes.get(_find_opener(now))
        first = new if found.section == "exchange" and new else opener
        reason = first.reason if first and first.kind == "entered" else None
        page_id = _get_page_id(new or old)
        return _PrefixEnd(
            cause="exchange", page_id=page_id, reason=reason or _get_turn_start(now)
        )
    if new is not None and (new.kind == "entered" or new.moved):
        return _PrefixEnd(cause="entered", page_id=new.page_id, reason=new.reason)
    return _PrefixEnd(cause="budget", page_id=_get_page_id(old or new))


def _get_page_id(change: FrameChange | None) -> str | None:
    return change.page_id if change else None


def _build_broken(change: FrameChange) -> _PrefixEnd:
    """Build the end for a page whose frame left or changed."""
    cause = _OF_KIND.get(change.kind, "evicted")
    # The page left, whether or not it came back elsewhere.
    reason = change.removal if cause == "evicted" else change.reason
    return _PrefixEnd(cause=cause, page_id=change.page_id, reason=reason)


def _is_from_exchange(found: PrefixBreak, before: TurnSide, now: TurnSide) -> bool:
    """Tell whether the current text was in the previous exchange, which has ended."""
    if found.after is None:
        return False
    return _find_page_id(found.after, now) in {
        _find_page_id(ref, before) for ref in _iter_exchange(before)
    }


def _find_opener(side: TurnSide) -> str:
    """Return the page with which the exchange begins; empty without an exchange."""
    return next((_find_page_id(ref, side) for ref in _iter_exchange(side)), "")


def _iter_exchange(side: TurnSide) -> Iterator[Ref]:
    for section in side.recorded.record.sections:
        if section.name == "exchange":
            yield from section.refs


def _find_page_id(ref: Ref | None, side: TurnSide) -> str:
    """Return the page at a ref in the side's working set; empty without one."""
    if ref is None:
        return ""
    place = ref.get_location(side.thread)
    for frame in side.paging.frames.values():
        if any(held and held.location == place for held in frame.entry.levels):
            return frame.page_id
    return ""


def _get_turn_start(side: TurnSide) -> ChangeReason:
    """Return the event that began the turn. One query."""
    rows = Turn.objects.filter(thread_id=side.thread, n=side.turn)
    seq = rows.values_list("seq", flat=True).get()
    return ChangeReason(
        thread=side.thread, seq=seq, type="turn.began", cause="turn", by="tool"
    )
