"""Charts of paging over time, from counters of turns and snapshots. Never writes.

Counters stand beside turns unencrypted, so a million events cost the same as a few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

import orjson
from django.db.models import Max, Min

from memoryhub.journal.rows import projections
from memoryhub.kernel.context.recalls import SOURCES
from memoryhub.kernel.state.page_events import Cause
from memoryhub.kernel.state.paging import REFAULT_TURNS, Exchanges
from memoryhub.models.events import Snapshot
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import residency
from memoryhub.queries.paging.residency import HotPage
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import Flag, VerdictCounters

Counts = Mapping[str, int]
#: Maximum number of buckets of a chart.
BUCKETS = 200
#: Maximum number of TLB entries listed by name.
HELD = 60
CAUSES: tuple[str, ...] = get_args(Cause)
#: Seq, number of the turn that begins there (0 for none), cumulative counts.
ChartMark = tuple[int, int, Counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBucket:
    """A stretch of the journal, first to last seq, and the counts in it."""

    first: int
    last: int
    #: The turn with which the bucket begins; 0 for none.
    turn: int
    #: Number of turns that began in the bucket.
    turns: int
    counts: Counts
    #: Rate over the latest exchanges, at the bucket's end.
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
        """Return recalled texts of all sources, by outcome: brought, used, wasted."""
        return {
            what: sum(self.count(f"recall.{what}.{source}") for source in SOURCES)
            for what in ("brought", "used", "wasted")
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingCharts:
    """A stretch of a thread's paging, in buckets and as a whole."""

    buckets: tuple[ChartBucket, ...]
    whole: ChartBucket
    #: Exchanges up to the stretch's end, and exchanges that fetched nothing.
    exchanges: Exchanges
    #: Causes of the evictions in the stretch.
    causes: tuple[str, ...]
    #: Refaults per turn, at the stretch's end.
    thrash_index: float
    #: Pages that return soon after each eviction, at the stretch's end.
    thrashing: tuple[str, ...]
    #: Tokens that the working set may hold at the stretch's end.
    usable: int
    #: Number of TLB entries at the stretch's end, and the TLB's capacity.
    entries: int
    room: int
    #: Pages of the newest TLB entries, newest first.
    held: tuple[str, ...]
    #: The hot list at the stretch's end, highest score first, and its capacity.
    warm: tuple[HotPage, ...]
    warm_room: int
    #: Tools of which is known what is read before their calls, and pages of theirs.
    tools_known: int
    pages_known: int
    #: Thresholds of the thread's project.
    limits: Thresholds

    @property
    def flags(self) -> frozenset[Flag]:
        """Return the verdicts on these rates, by the project's thresholds."""
        rates = VerdictCounters(
            refaults=round(self.thrash_index * REFAULT_TURNS),
            exchanges=self.exchanges.begun,
            faulted_lately=self.exchanges.faulted_lately,
            full=False,
            hits=self.whole.hits,
            misses=self.whole.count("misses"),
        )
        return frozenset(each.flag for each in verdicts.find(rates, self.limits))


def get_charts(
    thread: Thread, *, first: int | None = None, last: int | None = None
) -> PagingCharts:
    """Count the events between two seqs in at most `BUCKETS` buckets.

    At most seven queries. `thread` comes with its subject; a fork begins with its own
    events.
    """
    end = thread.head_seq if last is None else min(last, thread.head_seq)
    start = max(0, min((first or 1) - 1, end))
    state = replay.load_state_at(thread, end).state
    marks = _list_turn_marks(thread, start, end) or _list_snapshot_marks(
        thread, start, end
    )
    if start == 0 and thread.parent_id is None:
        marks = [(1, 0, {}), *(mark for mark in marks if mark[0] > 1)]
    marks.append((end + 1, state.turn_count + 1, projections.count_paging(state)))
    tlb = state.paging.tlb
    every = max(1, -(-(len(marks) - 1) // BUCKETS))
    kept = [*marks[:-1:every], marks[-1]]
    return PagingCharts(
        buckets=tuple(_build_bucket(one, two) for one, two in pairwise(kept)),
        whole=_build_bucket(kept[0], kept[-1]),
        exchanges=state.paging.exchanges,
        thrash_index=state.paging.count_refaults(state.turn_count) / REFAULT_TURNS,
        causes=_list_causes(_build_bucket(kept[0], kept[-1])),
        thrashing=tuple(sorted(state.paging.thrashing)),
        usable=state.paging.settings.usable,
        entries=len(tlb.held),
        room=state.paging.settings.tlb_entries,
        held=tuple(
            entry.page_id for entry in tlb.list_oldest_first()[: -HELD - 1 : -1]
        ),
        warm=residency.list_hot_pages(state),
        warm_room=state.paging.settings.l1_pages,
        tools_known=len(state.paging.tools),
        pages_known=sum(len(tool.pages) for tool in state.paging.tools),
        limits=Thresholds.from_project(thread.project),
    )


def _list_turn_marks(thread: Thread, start: int, end: int) -> list[ChartMark]:
    """List the turns that began in the stretch, evenly thinned out. Two queries."""
    rows = Turn.objects.filter(thread_id=thread.id, seq__gt=start, seq__lte=end)
    bounds = rows.aggregate(low=Min("n"), high=Max("n"))
    if bounds["low"] is None:
        return []
    count = bounds["high"] - bounds["low"] + 1
    every = max(1, -(-count // BUCKETS))
    chosen = rows.filter(n__in=range(bounds["low"], bounds["high"] + 1, every))
    found = chosen.order_by("n").values_list("seq", "n", "counters")
    return [(seq, n, orjson.loads(counters)) for seq, n, counters in found]


def _list_snapshot_marks(thread: Thread, start: int, end: int) -> list[ChartMark]:
    """List counters of snapshots, for threads without turns. One query."""
    rows = Snapshot.objects.filter(thread_id=thread.id, seq__gt=start, seq__lte=end)
    found = rows.order_by("seq").values_list("seq", "counters")
    return [(seq + 1, 0, orjson.loads(counters)) for seq, counters in found]


def _build_bucket(one: ChartMark, two: ChartMark) -> ChartBucket:
    before, after = one[2], two[2]
    moved = {name: after[name] - before.get(name, 0) for name in sorted(after)}
    return ChartBucket(
        first=one[0],
        last=two[0] - 1,
        turn=one[1],
        turns=max(0, two[1] - one[1]) if one[1] else 0,
        counts=moved,
        resident_rate=projections.compute_rate(after),
    )


def _list_causes(whole: ChartBucket) -> tuple[str, ...]:
    return tuple(cause for cause in CAUSES if whole.count(f"evicted.{cause}"))


def build_series(
    buckets: Sequence[ChartBucket], names: Sequence[str]
) -> list[list[int]]:
    """List each name's counts, bucket by bucket."""
    return [[bucket.count(name) for bucket in buckets] for name in names]
