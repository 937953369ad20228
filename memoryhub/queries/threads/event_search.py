"""Search of a thread's events. Never writes.

One call searches at most REACH events and reports how far it got. A rare match in a
long journal takes several short calls instead of one long call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from memoryhub.kernel.state.state import MAX_MAX_SLOTS
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListScope
from memoryhub.queries.lists.terms import (
    NumberSpan,
    Period,
    SearchTerm,
    WordValue,
    filter_span,
    filter_time,
    filter_word,
)
from memoryhub.queries.lists.terms import Value as SearchValue
from memoryhub.queries.threads.events import Order, ThreadEventLine, build_line

#: Maximum number of events searched by one call.
REACH = 20_000
#: A number greater than any seq.
_NEVER = 2**62
#: Prefix of the page id of a slot; the slot's index follows.
_SLOT_PAGE = "slot-"
_INDEX = re.compile("0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStretch:
    """Matching events in a stretch of the journal: first <= seq <= last."""

    lines: tuple[ThreadEventLine, ...]
    first: int
    last: int
    #: The cursor of the next stretch; None at the end.
    next: str | None


def search_events(
    thread: Thread,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    at_seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
    order: Order = "asc",
    content: bool = True,
) -> EventStretch:
    """Search events as of a seq, from one end of the journal. Two queries.

    `thread` comes with its subject. A stretch ends at the last line of a full batch, or
    after REACH events; the first stretch fixes the head, in its cursor. Raises
    BadCursorError when `after` is not a cursor of this very list.
    """
    listing = _build_listing(thread, terms, order, at_seq)
    low, high = _get_bounds(thread, at_seq) if after is None else listing.open(after)
    ascending = order == "asc"
    first = low + 1 if ascending else max(low + 1, high - REACH + 1)
    last = min(high, low + REACH) if ascending else high
    rows = _filter_events(thread, terms, now).filter(seq__gte=first, seq__lte=last)
    found = rows.order_by("seq" if ascending else "-seq")
    if not content:
        found = found.defer("payload")
    lines = tuple(build_line(thread, row, content=content) for row in found[:limit])
    if len(lines) == limit:
        end = lines[-1].seq
        first, last = (first, end) if ascending else (end, last)
    rest = [last, high] if ascending else [low, first - 1]
    following = listing.seal(rest) if rest[0] < rest[1] else None
    return EventStretch(lines=lines, first=first, last=last, next=following)


def _build_listing(
    thread: Thread, terms: Sequence[SearchTerm], order: Order, at_seq: int | None
) -> ListScope:
    filters = [thread.id, [term.to_json() for term in terms], order, at_seq]
    return ListScope(name="events", project=thread.project_id, filters=filters)


def _get_bounds(thread: Thread, at_seq: int | None) -> tuple[int, int]:
    """Return the bounds of the whole search: low < seq <= high."""
    return 0, thread.head_seq if at_seq is None else at_seq


def _filter_events(
    thread: Thread, terms: Sequence[SearchTerm], now: datetime
) -> QuerySet[Event]:
    rows = Event.objects.filter(thread_id=thread.id)
    keys = {term.key for term in terms}
    before = _get_first_turn(thread) if "turn" in keys else 0
    if "size" in keys:
        rows = rows.annotate(size=_build_size())
    for term in terms:
        any_of = Q()
        for value in term.values:
            if term.key == "turn" and isinstance(value, NumberSpan):
                any_of |= _build_turn_condition(thread, value, before)
            else:
                any_of |= _build_condition(thread, term.key, value, now)
        rows = rows.filter(~any_of if term.negated else any_of)
    return rows


def _build_condition(thread: Thread, key: str, value: SearchValue, now: datetime) -> Q:
    if isinstance(value, Period) or key == "at":
        assert not isinstance(value, WordValue)
        return filter_time("at", value, now)
    if isinstance(value, NumberSpan):
        return filter_span(key, value)
    if key == "noun":
        return filter_word("type", WordValue(text=f"{value.text}.", prefix=True))
    if key == "erased":
        return Q(erased_by__isnull=value.text == "false")
    if key == "page":
        return _build_page_condition(thread, value)
    return filter_word(key, value)


def _get_first_turn(thread: Thread) -> int:
    """Return the turn of the thread's first event; a fork begins in a later turn."""
    own = Turn.objects.filter(thread_id=thread.id).order_by("n")
    first = own.values_list("n", flat=True).first()
    return thread.turn_count if first is None else first - 1


def _build_turn_condition(thread: Thread, span: NumberSpan, before: int) -> Q:
    """Build the condition on a span of turns, from the seqs where turns begin.

    Both seqs are found once for all events: turns are numbered in order of beginning.
    """
    held = Q(seq__gte=1)
    if span.low is not None:
        low = NumberSpan(low=span.low, low_open=span.low_open)
        if not _is_reached(before, low):
            held &= Q(seq__gte=_build_first_seq(thread, low))
    if span.high is not None:
        past = NumberSpan(low=span.high, low_open=not span.high_open)
        held &= Q(
            seq__lt=0 if _is_reached(before, past) else _build_first_seq(thread, past)
        )
    return held


def _is_reached(turn: int, span: NumberSpan) -> bool:
    assert span.low is not None
    return turn > span.low or (turn == span.low and not span.low_open)


def _build_first_seq(thread: Thread, span: NumberSpan) -> Coalesce:
    """Build the seq at which the span's first turn begins; `_NEVER` without a turn."""
    turns = Turn.objects.filter(filter_span("n", span), thread_id=thread.id)
    first = turns.order_by("n").values("seq")[:1]
    return Coalesce(Subquery(first), Value(_NEVER))


def _build_size() -> Coalesce:
    """Build the bytes of the message that an event appended; 0 without a message."""
    brought = Slot.objects.filter(thread=OuterRef("thread"), seq=OuterRef("seq"))
    return Coalesce(Subquery(brought.values("bytes")[:1]), Value(0))


def _build_page_condition(thread: Thread, word: WordValue) -> Q:
    """Build the condition on events that concern the pages of this name."""
    any_of = Q(pk__in=())
    for events_of in _PAGES:
        any_of |= events_of(thread, word)
    return any_of


def _build_slot_condition(thread: Thread, word: WordValue) -> Q:
    """Build the condition on events that appended a slot, by its page's name."""
    named = _build_index_condition(word)
    if named is None:
        return Q(pk__in=())
    rows = Slot.objects.filter(named, thread_id=thread.id)
    return Q(seq__in=rows.values("seq"))


def _build_index_condition(word: WordValue) -> Q | None:
    """Build the condition on slot indexes from a page name; None if no slot matches.

    `slot-1*` is 1, 10 to 19, 100 to 199 and so on.
    """
    if word.prefix and _SLOT_PAGE.startswith(word.text):
        return Q()
    digits = word.text.removeprefix(_SLOT_PAGE)
    if digits == word.text or not _INDEX.fullmatch(digits):
        return None
    first = int(digits)
    found, width = Q(index=first), 10
    while word.prefix and 0 < first * width < MAX_MAX_SLOTS:
        found |= Q(index__gte=first * width, index__lt=(first + 1) * width)
        width *= 10
    return found


#: Sources of pages: each function builds the condition on events that concern a page.
_PAGES: tuple[Callable[[Thread, WordValue], Q], ...] = (_build_slot_condition,)
