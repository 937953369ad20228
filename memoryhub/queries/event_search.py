"""Event search: the events of a thread that match what was asked. Never writes.

One question looks over REACH events at most and says how far it got, so that a rare
match in a long journal costs several short questions instead of one long one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from memoryhub.models.events import Event
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.events import EventLine, Order, line_of
from memoryhub.queries.terms import Span, Term, Word, age_of, span_of, word_in
from memoryhub.queries.terms import Value as Asked

#: Events that one question looks over at most.
REACH = 20_000
_CHUNK = 200
#: Greater than any seq.
_NEVER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What matches in a stretch of the journal: first <= seq <= last."""

    lines: tuple[EventLine, ...]
    first: int
    last: int


def search_events(
    thread: Thread,
    *,
    terms: Sequence[Term],
    now: datetime,
    after: int = 0,
    up_to: int,
    limit: int = 50,
    order: Order = "asc",
    content: bool = True,
) -> Stretch:
    """Matching events with after < seq <= up_to, from one end of that. Two queries.

    `thread` comes with its subject. What was looked over ends at the last line of a
    full batch, or after REACH events.
    """
    first, last = after + 1, up_to
    if order == "asc":
        last = min(last, after + REACH)
    else:
        first = max(first, up_to - REACH + 1)
    rows = _matching(thread, terms, now).filter(seq__gte=first, seq__lte=last)
    found = rows.order_by("seq" if order == "asc" else "-seq")
    if not content:
        found = found.defer("payload")
    lines = tuple(line_of(thread, row, content=content) for row in found[:limit])
    if len(lines) == limit:
        first, last = (
            (first, lines[-1].seq) if order == "asc" else (lines[-1].seq, last)
        )
    return Stretch(lines=lines, first=first, last=last)


def iter_events(
    thread: Thread,
    *,
    terms: Sequence[Term],
    now: datetime,
    up_to: int,
    content: bool,
) -> Iterator[tuple[EventLine, ...]]:
    """All matching events up to a seq, oldest first, in chunks."""
    after = 0
    while after < up_to:
        stretch = search_events(
            thread,
            terms=terms,
            now=now,
            after=after,
            up_to=up_to,
            limit=_CHUNK,
            content=content,
        )
        yield stretch.lines
        after = stretch.last


def _matching(thread: Thread, terms: Sequence[Term], now: datetime) -> QuerySet[Event]:
    rows = Event.objects.filter(thread_id=thread.id)
    keys = {term.key for term in terms}
    before = _turn_before(thread) if "turn" in keys else 0
    if "size" in keys:
        rows = rows.annotate(size=_size())
    for term in terms:
        some = Q()
        for value in term.values:
            if term.key == "turn" and isinstance(value, Span):
                some |= _in_turns(thread, value, before)
            else:
                some |= _holds(term.key, value, now)
        rows = rows.filter(~some if term.negated else some)
    return rows


def _holds(key: str, value: Asked, now: datetime) -> Q:
    if isinstance(value, Span):
        return age_of("at", value, now) if key == "at" else span_of(key, value)
    if key == "noun":
        return word_in("type", Word(text=f"{value.text}.", prefix=True))
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
