"""Paging over time: counters of turns and snapshots, told as differences. Never writes.

What is counted stands beside the turns in the clear, so a million events cost the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

import orjson
from django.db.models import Max, Min

from memoryhub.journal.rows import projections
from memoryhub.kernel.levels.recalls import SOURCES
from memoryhub.kernel.state.page_events import Cause
from memoryhub.kernel.state.paging import REFAULT_TURNS, Exchanges
from memoryhub.models.events import Snapshot
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import residency
from memoryhub.queries.paging.residency import Warm
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.verdicts import Counters, Flag

Counts = Mapping[str, int]
#: Stretches of a chart at most.
BUCKETS = 200
#: Entries of the TLB that are told by name.
HELD = 60
CAUSES: tuple[str, ...] = get_args(Cause)
#: Seq, turn begun there (0 for none), cumulative counts.
Mark = tuple[int, int, Counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A stretch of the journal, first to last seq, and what was counted in it."""

    first: int
    last: int
    #: The turn it begins with; 0 for none.
    turn: int
    #: How many turns began in it.
    turns: int
    counts: Counts
    #: Of the last exchanges, as of its end.
    resident_rate: float | None

    def count(self, name: str) -> int:
        return self.counts.get(name, 0)

    @property
    def hits(self) -> int:
        return self.count("hits")

    @property
    def lookups(self) -> int:
        return self.count("hits") + self.count("misses")

    @property
    def hit_rate(self) -> float | None:
        return self.hits / self.lookups if self.lookups else None

    @property
    def faults(self) -> int:
        return self.count("faults")

    @property
    def refused(self) -> int:
        return self.count("refused")

    @property
    def refaults(self) -> int:
        return self.count("refaults")

    @property
    def evicted(self) -> int:
        return self.count("evicted")

    @property
    def lowered(self) -> int:
        return self.count("lowered")

    @property
    def recall(self) -> dict[str, int]:
        """Texts of every source that turns brought along, and what became of them."""
        return {
            what: sum(self.count(f"recall.{what}.{source}") for source in SOURCES)
            for what in ("brought", "used", "wasted")
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """A stretch of a thread's paging, in buckets and as a whole."""

    buckets: tuple[Bucket, ...]
    whole: Bucket
    #: How many exchanges there were up to its end, and how many fetched nothing.
    exchanges: Exchanges
    #: Causes that evicted anything in it.
    causes: tuple[str, ...]
    #: Refaults a turn, at its end.
    thrash_index: float
    #: Pages that come back about as soon as they leave, at its end.
    thrashing: tuple[str, ...]
    #: Entries that the TLB holds at its end, and how many it may.
    entries: int
    room: int
    #: Pages of the newest of them, the newest first.
    held: tuple[str, ...]
    #: The hot list at its end, the page most worth keeping first, and its room.
    warm: tuple[Warm, ...]
    warm_room: int

    @property
    def flags(self) -> frozenset[Flag]:
        """Return the verdicts that its rates come under, by the thresholds of all."""
        rates = Counters(
            refaults=0,
            exchanges=self.exchanges.begun,
            faulted_lately=self.exchanges.faulted_lately,
            full=False,
            hits=self.whole.hits,
            misses=self.whole.count("misses"),
        )
        return frozenset(each.flag for each in verdicts.find(rates))


def get_charts(
    thread: Thread, *, first: int | None = None, last: int | None = None
) -> Charts:
    """Count between two seqs in at most `BUCKETS` stretches.

    At most six queries. `thread` comes with its subject; a fork begins with its own
    events.
    """
    end = thread.head_seq if last is None else min(last, thread.head_seq)
    start = max(0, min((first or 1) - 1, end))
    state = replay.state_at(thread, end).state
    marks = _turns(thread, start, end) or _snapshots(thread, start, end)
    if start == 0 and thread.parent_id is None:
        marks = [(1, 0, {}), *(mark for mark in marks if mark[0] > 1)]
    marks.append((end + 1, state.turn_count + 1, projections.paging_counters(state)))
    tlb = state.paging.tlb
    every = max(1, -(-(len(marks) - 1) // BUCKETS))
    kept = [*marks[:-1:every], marks[-1]]
    return Charts(
        buckets=tuple(_between(one, two) for one, two in pairwise(kept)),
        whole=_between(kept[0], kept[-1]),
        exchanges=state.paging.exchanges,
        thrash_index=state.paging.refault_count(state.turn_count) / REFAULT_TURNS,
        causes=_causes(_between(kept[0], kept[-1])),
        thrashing=tuple(sorted(state.paging.thrashing)),
        entries=len(tlb.held),
        room=state.paging.settings.tlb_entries,
        held=tuple(entry.page_id for entry in tlb.oldest_first()[: -HELD - 1 : -1]),
        warm=residency.list_warm(state),
        warm_room=state.paging.settings.l1_pages,
    )


def _turns(thread: Thread, start: int, end: int) -> list[Mark]:
    """Where turns began in the stretch, evenly thinned out. Two queries."""
    rows = Turn.objects.filter(thread_id=thread.id, seq__gt=start, seq__lte=end)
    bounds = rows.aggregate(low=Min("n"), high=Max("n"))
    if bounds["low"] is None:
        return []
    count = bounds["high"] - bounds["low"] + 1
    every = max(1, -(-count // BUCKETS))
    chosen = rows.filter(n__in=range(bounds["low"], bounds["high"] + 1, every))
    found = chosen.order_by("n").values_list("seq", "n", "counters")
    return [(seq, n, orjson.loads(counters)) for seq, n, counters in found]


def _snapshots(thread: Thread, start: int, end: int) -> list[Mark]:
    """The same by snapshots, for threads without turns. One query."""
    rows = Snapshot.objects.filter(thread_id=thread.id, seq__gt=start, seq__lte=end)
    found = rows.order_by("seq").values_list("seq", "counters")
    return [(seq + 1, 0, orjson.loads(counters)) for seq, counters in found]


def _between(one: Mark, two: Mark) -> Bucket:
    before, after = one[2], two[2]
    moved = {name: after[name] - before.get(name, 0) for name in sorted(after)}
    return Bucket(
        first=one[0],
        last=two[0] - 1,
        turn=one[1],
        turns=max(0, two[1] - one[1]) if one[1] else 0,
        counts=moved,
        resident_rate=projections.rate_of(after),
    )


def _causes(whole: Bucket) -> tuple[str, ...]:
    return tuple(cause for cause in CAUSES if whole.count(f"evicted.{cause}"))


def series(buckets: Sequence[Bucket], names: Sequence[str]) -> list[list[int]]:
    """Return each name's counts, bucket by bucket."""
    return [[bucket.count(name) for bucket in buckets] for name in names]
