"""Miss-ratio curves of a thread's TLB, and what other policies would have done to it.

Never writes and makes no look-up: the TLB and its counters stay unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.journal.log import log
from memoryhub.kernel.paging import curves, paging_trace, policy_runs
from memoryhub.kernel.paging.paging_trace import PagingTrace
from memoryhub.kernel.paging.policy_runs import PolicyRun
from memoryhub.kernel.state.paging_config import RANGES, PagingSettings
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay

#: Most events that curves cover; of longer threads the last.
MAX_EVENTS = 10_000
#: Sizes of TLBs that a curve tells of, as far as pages fill them.
_SIZES = tuple(2**n for n in range(13))
#: Budgets that the table tells of, as multiples of the thread's own.
_SHARES = (0.5, 0.75, 1, 1.5, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlbPoint:
    """Misses that a TLB of one size would have had, by policy."""

    size: int
    lru: int
    sieve: int
    #: Fewest misses that any policy could have (Bélády).
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingCurves:
    """Curves of a stretch of a thread's events."""

    #: First and last event of the stretch.
    first_seq: int
    seq: int
    #: Size of the TLB, and what the TLB recorded in the stretch.
    tlb_entries: int
    hits: int
    misses: int
    points: tuple[TlbPoint, ...]
    #: Policy and budget of the thread, and what both recorded in the stretch.
    policy: str
    budget_tokens: int
    faults: int
    evicted: int
    runs: tuple[PolicyRun, ...]

    @property
    def lookups(self) -> int:
        return self.hits + self.misses


def get_curves(thread: Thread, state: ThreadState) -> PagingCurves:
    """Return the curves of a thread up to a state of it. `thread` has its subject.

    Covers at most the last `MAX_EVENTS` events, in one query that streams, and two
    bounded folds. The work is linear in these events, for each of up to 14 sizes and
    each of 20 pairs of policy and budget.
    """
    base = replay.load_state_at(thread, max(0, state.seq - MAX_EVENTS)).state
    trace = PagingTrace(base.seq, size=base.paging.settings.tlb_entries)
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gt=base.seq,
        seq__lte=state.seq,
        type__in=paging_trace.TYPES,
    )
    for row in rows.defer("payload").order_by("seq").iterator():
        trace.add(log.to_recorded(row).event, state=state, seq=row.seq)
    if trace.base != base.seq:
        base = replay.load_state_at(thread, trace.base).state
    return build_curves(base, state, trace)


def build_curves(
    base: ThreadState, state: ThreadState, trace: PagingTrace
) -> PagingCurves:
    """Build the curves of a trace that goes from state `base` to `state`. Pure."""
    before, after = base.paging, state.paging
    settings = after.settings
    runs = policy_runs.list_runs(base, trace, settings, _list_budgets(settings))
    return PagingCurves(
        first_seq=base.seq + 1,
        seq=state.seq,
        tlb_entries=settings.tlb_entries,
        hits=after.tlb.hits - before.tlb.hits,
        misses=after.tlb.misses - before.tlb.misses,
        points=_build_points(base, settings.tlb_entries, trace),
        policy=settings.policy,
        budget_tokens=settings.budget_tokens,
        faults=_count_between(base, state, "faults"),
        evicted=_count_between(base, state, "evicted"),
        runs=tuple(runs),
    )


def _build_points(
    base: ThreadState, size: int, trace: PagingTrace
) -> tuple[TlbPoint, ...]:
    held = [entry.page_id for entry in base.paging.tlb.list_oldest_first()]
    depths = curves.count_depths(held, trace.tlb)
    # No look-up finds its page deeper, so a larger TLB would not hit more often.
    useful = [each for each in _SIZES if each < 2 * max(depths, default=0)]
    sizes = sorted({1, size, *useful})
    least = curves.count_least_misses(held, trace.tlb, sizes)
    return tuple(
        TlbPoint(
            size=each,
            lru=curves.count_lru_misses(depths, each),
            sieve=curves.count_sieve_misses(held, trace.tlb, each),
            least=fewest,
        )
        for each, fewest in zip(sizes, least, strict=True)
    )


def _list_budgets(settings: PagingSettings) -> list[int]:
    low, high = map(int, RANGES["budget_tokens"])
    own = settings.budget_tokens
    return sorted({min(high, max(low, int(own * share))) for share in _SHARES})


def _count_between(base: ThreadState, state: ThreadState, name: str) -> int:
    before, after = base.paging.counts, state.paging.counts
    return after.get(name, 0) - before.get(name, 0)
