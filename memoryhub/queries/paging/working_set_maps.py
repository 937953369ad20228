"""Map of a thread: its working set over all events, at low resolution.

Never writes. A thread of a few thousand events is drawn from event bodies. A longer
thread is drawn from snapshots and the counters beside turns, so that a million events
cost the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from memoryhub.journal.log import snapshots
from memoryhub.models.events import Snapshot
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Checkpoint
from memoryhub.queries.paging import paging_charts, traces
from memoryhub.queries.replay import states
from memoryhub.vault.registry.lru import Lru

#: Maximum number of events that are read one by one.
TRACED = 16_000
#: Number of snapshots from which a longer thread is drawn.
SAMPLES = 64
#: Maximum numbers of turns and of checkpoints marked.
TICKS, CHECKPOINTS = 40, 60
_STEPS = (1, 2, 5)
Stretches = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSetMap:
    """Size of a working set over a thread's events; positions are seqs."""

    head: int
    #: Tokens above which evictions start, and tokens at which evictions stop.
    high: int
    low: int
    #: (seq, tokens after the event), oldest first; constant up to the next point.
    points: tuple[tuple[int, int], ...]
    #: Whether points are samples, with unknown tokens between: draw a straight line.
    sampled: bool
    #: First and last seq of stretches in which pages left or were shortened.
    leaving: Stretches
    #: First and last seq of stretches with fetches, and with refused fetches.
    fetched: Stretches
    refused: Stretches
    checkpoints: tuple[int, ...]
    #: (number, seq) of turns, evenly thinned out.
    turns: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moves:
    points: tuple[tuple[int, int], ...]
    leaving: Stretches
    fetched: Stretches
    refused: Stretches


#: Tokens of opened snapshots, by thread, epoch of its subject and seq.
sampled: Lru[tuple[UUID, int, int], int] = Lru(50_000, name="token counts of snapshots")
#: Moves of long threads as of their heads, by thread, epoch of its subject and head.
sampled_moves: Lru[tuple[UUID, int, int], _Moves] = Lru(50, name="maps of long threads")


def get_map(thread: Thread) -> WorkingSetMap:
    """Return the map of a thread as of its head. `thread` comes with its subject.

    Three queries and those of a state, and at most seven more for a long thread that
    has moved. The first map of a long thread in a process opens `SAMPLES` snapshots.
    """
    # What stands beside pages in requests lowers the threshold: blocks, tools, log.
    settings, head = states.load_state(thread).paging.settings, thread.head_seq
    long = head > TRACED
    moves = _sample_moves(thread) if long else _trace_moves(thread)
    taken = Checkpoint.objects.filter(thread_id=thread.id, auto=False, seq__gt=0)
    newest = taken.order_by("-seq").values_list("seq", flat=True)[:CHECKPOINTS]
    return WorkingSetMap(
        head=head,
        high=int(settings.high),
        low=settings.low,
        points=moves.points,
        sampled=long,
        leaving=moves.leaving,
        fetched=moves.fetched,
        refused=moves.refused,
        checkpoints=tuple(sorted(newest)),
        turns=_list_ticks(thread),
    )


def _trace_moves(thread: Thread) -> _Moves:
    trace = traces.get_trace(thread)
    width, head = trace.width, thread.head_seq

    def build_stretches(places: Iterable[int]) -> Stretches:
        each = (
            (place * width + 1, min(head, (place + 1) * width))
            for place in sorted(places)
        )
        return join_stretches(each)

    points = (
        (min(head, (place + 1) * width), tokens)
        for place, tokens in enumerate(trace.ends)
    )
    return _Moves(
        points=tuple(points),
        leaving=build_stretches(trace.left),
        fetched=build_stretches(trace.fetched),
        refused=build_stretches(trace.refused),
    )


def _sample_moves(thread: Thread) -> _Moves:
    """Sample a long thread's moves; no query while the thread does not move."""
    key = (thread.id, thread.subject.epoch, thread.head_seq)
    held = sampled_moves.get(key)
    if held is not None:
        return held
    buckets = paging_charts.get_charts(thread).buckets

    def build_stretches(*names: str) -> Stretches:
        return join_stretches(
            (each.first, each.last) for each in buckets if any(map(each.count, names))
        )

    moves = _Moves(
        points=(*_sample_tokens(thread), (thread.head_seq, thread.resident_tokens)),
        leaving=build_stretches("evicted", "lowered"),
        fetched=build_stretches("faults"),
        refused=build_stretches("refused"),
    )
    sampled_moves.put(key, moves)
    return moves


def _sample_tokens(thread: Thread) -> list[tuple[int, int]]:
    """Return the tokens of snapshots, evenly thinned out. At most two queries.

    Every second snapshot is dropped while there are too many, so that most snapshots
    opened before stay in use.
    """
    rows = Snapshot.objects.filter(thread_id=thread.id)
    seqs = [*rows.order_by("seq").values_list("seq", flat=True)]
    while len(seqs) > SAMPLES:
        seqs = seqs[1::2]
    epoch = thread.subject.epoch
    found = {seq: sampled.get((thread.id, epoch, seq)) for seq in seqs}
    missing = [seq for seq, tokens in found.items() if tokens is None]
    for row in rows.filter(seq__in=missing) if missing else ():
        tokens = snapshots.count_used_tokens(row, thread)
        sampled.put((thread.id, epoch, row.seq), tokens)
        found[row.seq] = tokens
    return [(seq, tokens) for seq, tokens in found.items() if tokens is not None]


def join_stretches(stretches: Iterable[tuple[int, int]]) -> Stretches:
    """Join stretches that follow each other without a gap. Pure."""
    found: list[tuple[int, int]] = []
    for first, last in stretches:
        if found and found[-1][1] >= first - 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def _list_ticks(thread: Thread) -> tuple[tuple[int, int], ...]:
    """Return at most `TICKS` turns of the thread's own. One query."""
    step = compute_tick_step(thread.turn_count)
    numbers: Sequence[int] = range(step, thread.turn_count + 1, step)
    rows = Turn.objects.filter(thread_id=thread.id, n__in=[1, *numbers])
    return tuple(rows.order_by("n").values_list("n", "seq"))


def compute_tick_step(count: int) -> int:
    """Return the distance between marks that leaves at most `TICKS` marks. Pure."""
    power = 1
    while True:
        for step in _STEPS:
            if step * power * TICKS >= count:
                return step * power
        power *= 10
