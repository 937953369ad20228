"""Event search: the events of a thread that match what was asked. Never writes.

One question looks over REACH events at most and says how far it got, so that a rare
match in a long journal costs several short questions instead of one long one.
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
from memoryhub.queries.lists.cursors import Listing
from memoryhub.queries.lists.terms import (
    Period,
    SearchTerm,
    Span,
    Word,
    span_of,
    time_of,
    word_in,
)
from memoryhub.queries.lists.terms import Value as SearchValue
from memoryhub.queries.threads.events import EventLine, Order, line_of

#: Events that one question looks over at most.
REACH = 20_000
#: Greater than any seq.
_NEVER = 2**62
#: Each slot is a page by this name and its index.
_SLOT_PAGE = "slot-"
_INDEX = re.compile("0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What matches in a stretch of the journal: first <= seq <= last."""

    lines: tuple[EventLine, ...]
    first: int
    last: int
    #: The cursor of the stretch beyond this one; None at the end.
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
) -> Stretch:
    """Search events as of a seq, from one end of the journal. Two queries.

    `thread` comes with its subject. What was looked over ends at the last line of a
    full batch, or after REACH events; the first stretch fixes the head, in its cursor.
    Raises BadCursorError when `after` is not of this very list.
    """
    listing = _listing(thread, terms, order, at_seq)
    low, high = _bounds(thread, at_seq) if after is None else listing.open(after)
    ascending = order == "asc"
    first = low + 1 if ascending else max(low + 1, high - REACH + 1)
    last = min(high, low + REACH) if ascending else high
    rows = _matching(thread, terms, now).filter(seq__gte=first, seq__lte=last)
    found = rows.order_by("seq" if ascending else "-seq")
    if not content:
        found = found.defer("payload")
    lines = tuple(line_of(thread, row, content=content) for row in found[:limit])
    if len(lines) == limit:
        end = lines[-1].seq
        first, last = (first, end) if ascending else (end, last)
    rest = [last, high] if ascending else [low, first - 1]
    following = listing.seal(rest) if rest[0] < rest[1] else None
    return Stretch(lines=lines, first=first, last=last, next=following)


def _listing(
    thread: Thread, terms: Sequence[SearchTerm], order: Order, at_seq: int | None
) -> Listing:
    filters = [thread.id, [term.plain() for term in terms], order, at_seq]
    return Listing(name="events", project=thread.project_id, filters=filters)


def _bounds(thread: Thread, at_seq: int | None) -> tuple[int, int]:
    """What is looked over in all: low < seq <= high."""
    return 0, thread.head_seq if at_seq is None else at_seq


def _matching(
    thread: Thread, terms: Sequence[SearchTerm], now: datetime
) -> QuerySet[Event]:
    rows = Event.objects.filter(thread_id=thread.id)
    keys = {term.key for term in terms}
    before = _turn_before(thread) if "turn" in keys else 0
    if "size" in keys:
        rows = rows.annotate(size=_size())
    for term in terms:
        any_of = Q()
        for value in term.values:
            if term.key == "turn" and isinstance(value, Span):
                any_of |= _in_turns(thread, value, before)
            else:
                any_of |= _holds(thread, term.key, value, now)
        rows = rows.filter(~any_of if term.negated else any_of)
    return rows


def _holds(thread: Thread, key: str, value: SearchValue, now: datetime) -> Q:
    if isinstance(value, Period) or key == "at":
        assert not isinstance(value, Word)
        return time_of("at", value, now)
    if isinstance(value, Span):
        return span_of(key, value)
    if key == "noun":
        return word_in("type", Word(text=f"{value.text}.", prefix=True))
    if key == "erased":
        return Q(erased_by__isnull=value.text == "false")
    if key == "page":
        return _of_pages(thread, value)
    return word_in(key, value)


def _turn_before(thread: Thread) -> int:
    """The turn that the thread's first event is in; a fork begins in a later one."""
    own = Turn.objects.filter(thread_id=thread.id).order_by("n")
    first = own.values_list("n", flat=True).first()
    return thread.turn_count if first is None else first - 1


def _in_turns(thread: Thread, span: Span, before: int) -> Q:
    """Events of a span of turns, by where the first begins and the next after it.

    Both are found once for all events: turns are numbered in the order they began.
    """
    held = Q(seq__gte=1)
    if span.low is not None:
        low = Span(low=span.low, low_open=span.low_open)
        if not _reaches(before, low):
            held &= Q(seq__gte=_first_seq(thread, low))
    if span.high is not None:
        past = Span(low=span.high, low_open=not span.high_open)
        held &= Q(seq__lt=0 if _reaches(before, past) else _first_seq(thread, past))
    return held


def _reaches(turn: int, span: Span) -> bool:
    assert span.low is not None
    return turn > span.low or (turn == span.low and not span.low_open)


def _first_seq(thread: Thread, span: Span) -> Coalesce:
    """Where the first turn of a span begins; beyond all events if none does."""
    turns = Turn.objects.filter(span_of("n", span), thread_id=thread.id)
    first = turns.order_by("n").values("seq")[:1]
    return Coalesce(Subquery(first), Value(_NEVER))


def _size() -> Coalesce:
    """Bytes of the message that an event brought; 0 if it brought none."""
    brought = Slot.objects.filter(thread=OuterRef("thread"), seq=OuterRef("seq"))
    return Coalesce(Subquery(brought.values("bytes")[:1]), Value(0))


def _of_pages(thread: Thread, word: Word) -> Q:
    """Events that are about the pages of this name, whatever brings them about."""
    any_of = Q(pk__in=())
    for events_of in _PAGES:
        any_of |= events_of(thread, word)
    return any_of


def _of_slots(thread: Thread, word: Word) -> Q:
    """Events that brought a slot, by the name of its page."""
    named = _indexes(word)
    if named is None:
        return Q(pk__in=())
    rows = Slot.objects.filter(named, thread_id=thread.id)
    return Q(seq__in=rows.values("seq"))


def _indexes(word: Word) -> Q | None:
    """The indexes in the names of slots' pages; None if no slot's page is called so.

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


#: What pages come from. Each says which events are about the pages of a name.
_PAGES: tuple[Callable[[Thread, Word], Q], ...] = (_of_slots,)
