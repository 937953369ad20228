"""Quality of memory: recalls that held, and packed tokens that were cited.

Never writes. Both look at the last turns only; see decision 82.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

from memoryhub.journal.log import log
from memoryhub.kernel.state.page_events import CitingEvent, PagesCited, TurnRated
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.evicted_pages import CITING
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.turns import turns
from memoryhub.queries.turns.turns import TurnLine

#: Number of last turns looked at, and of each journal's last events searched for them.
TURNS, REACH = 20, 5_000
#: Values above which memory does well.
GOOD_RECALL, GOOD_EFFECT = 0.95, 0.60


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingQuality:
    """Quality of memory in the last turns; rates are None without samples."""

    #: Rated turns whose exchange recalled or fetched a page, and corrected ones.
    recalls: int
    corrected: int
    #: Tokens of cited pages, and of the requests of the turns that cite.
    cited_tokens: int
    packed_tokens: int
    #: Citations of the whole thread, and ids in them that named no live page.
    citations: int
    unknown_citations: int

    @property
    def recall_success(self) -> float | None:
        return (self.recalls - self.corrected) / self.recalls if self.recalls else None

    @property
    def effective_tokens(self) -> float | None:
        return self.cited_tokens / self.packed_tokens if self.packed_tokens else None

    @property
    def has_weak_recall(self) -> bool:
        return self.recall_success is not None and self.recall_success <= GOOD_RECALL

    @property
    def has_weak_effect(self) -> bool:
        effect = self.effective_tokens
        return effect is not None and effect <= GOOD_EFFECT


def get_quality(thread: Thread, state: ThreadState) -> PagingQuality:
    """Return the quality of memory as of a state.

    Four queries, more in a fork that has few turns of its own.
    """
    lines = turns.list_turns(thread, up_to=state.seq, limit=TURNS).items
    by_turn: dict[int, list[PagesCited]] = {}
    ratings: dict[int, TurnRated] = {}
    for event in _iter_citing(thread, state.seq, lines):
        if isinstance(event, PagesCited):
            by_turn.setdefault(event.turn, []).append(event)
        elif isinstance(event, TurnRated):
            ratings[event.rated] = event
    judged = _list_judged(lines, state, ratings)
    packed, cited = 0, 0
    for line in lines:
        events = list[CitingEvent](by_turn.get(line.n, ()))
        if (rating := ratings.get(line.n)) is not None and rating.page_ids:
            events.append(rating)
        if line.packed is not None and events:
            packed += line.packed.tokens
            cited += _count_cited_tokens(events)
    counts = state.paging.counts
    return PagingQuality(
        recalls=len(judged),
        corrected=sum(bool(each.corrected) for each in judged),
        cited_tokens=cited,
        packed_tokens=packed,
        citations=counts.get("cited", 0) + counts.get("cited_unknown", 0),
        unknown_citations=counts.get("cited_unknown", 0),
    )


def _count_cited_tokens(events: Sequence[CitingEvent]) -> int:
    """Count the tokens of the cited pages, each page once."""
    pages = (zip(each.page_ids, each.tokens, strict=True) for each in events)
    return sum(dict(chain.from_iterable(pages)).values())


def _list_judged(
    lines: Sequence[TurnLine], state: ThreadState, ratings: dict[int, TurnRated]
) -> list[TurnRated]:
    """List the ratings of turns for whose answers memory brought something."""
    if not ratings:
        return []
    starts, found, brought = turns.get_starts(lines), list[TurnRated](), False
    for line in reversed(lines):
        brought = brought and starts[line.n].continues
        brought = brought or bool(line.recalled or _count_faults(line, state))
        rating = ratings.get(line.n)
        if brought and rating is not None and rating.corrected is not None:
            found.append(rating)
    return found


def _count_faults(line: TurnLine, state: ThreadState) -> int:
    """Count the pages fetched in a turn; the newest has no counts of its own yet."""
    paging = state.paging
    if line.n == state.turn_count:
        return paging.counts.get("faults", 0) - paging.turn_counts.get("faults", 0)
    return line.moved.get("faults", 0)


def _iter_citing(
    thread: Thread, seq: int, lines: Sequence[TurnLine]
) -> Iterator[CitingEvent]:
    """Yield the citations and ratings since these turns, oldest first."""
    first: dict[UUID, int] = {line.home: line.seq for line in lines}
    for part in get_segments(thread, up_to=seq):
        if part.thread in first:
            rows = Event.objects.filter(
                thread_id=part.thread,
                seq__gt=max(first[part.thread], part.up_to_seq - REACH),
                seq__lte=part.up_to_seq,
                type__in=CITING,
            )
            for row in rows.defer("payload").order_by("seq"):
                event = log.to_recorded(row).event
                assert isinstance(event, CitingEvent)
                yield event
