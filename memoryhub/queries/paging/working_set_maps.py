"""The map of a thread: its working set from afar, over all its events. Never writes.

A thread of a few thousand events is drawn from their bodies, a longer one from its
snapshots and the counters beside its turns, so that a million events cost the same.
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
from memoryhub.queries.paging import pages, paging_charts, traces
from memoryhub.vault.registry.lru import Lru

#: Events of a thread that are read one by one.
TRACED = 16_000
#: Snapshots that a longer one is drawn from.
SAMPLES = 64
#: Turns, and checkpoints, that are marked.
TICKS, CHECKPOINTS = 40, 60
_STEPS = (1, 2, 5)
Stretches = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSetMap:
    """How a working set grew and shrank; all by seq."""

    head: int
    #: Tokens beyond which pages leave, and where that ends.
    high: int
    low: int
    #: (seq, tokens after it), oldest first; constant up to the next one.
    points: tuple[tuple[int, int], ...]
    #: Tokens move evenly from one point to the next: between them is not known.
    sampled: bool
    #: First and last seq of stretches in which pages left or were shortened.
    leaving: Stretches
    #: The same where pages were fetched, and where that was refused.
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


#: Tokens of snapshots that were opened: by thread, epoch of its subject and seq.
sampled: Lru[tuple[UUID, int, int], int] = Lru(50_000, name="token counts of snapshots")


def get_map(thread: Thread) -> WorkingSetMap:
    """Return the map of a thread as of its head. `thread` comes with its subject.

    Three queries, for a long thread seven more at most. The first look at a long one
    in a process opens `SAMPLES` snapshots.
    """
    settings, head = pages.settings_now(thread), thread.head_seq
    long = head > TRACED
    moves = _sample(thread) if long else _trace(thread)
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
        turns=_ticks(thread),
    )


def _trace(thread: Thread) -> _Moves:
    trace = traces.get_trace(thread)
    width, head = trace.width, thread.head_seq

    def stretches(places: Iterable[int]) -> Stretches:
        each = (
            (place * width + 1, min(head, (place + 1) * width))
            for place in sorted(places)
        )
        return joined(each)

    points = (
        (min(head, (place + 1) * width), tokens)
        for place, tokens in enumerate(trace.ends)
    )
    return _Moves(
        points=tuple(points),
        leaving=stretches(trace.left),
        fetched=stretches(trace.fetched),
        refused=stretches(trace.refused),
    )


def _sample(thread: Thread) -> _Moves:
    buckets = paging_charts.get_charts(thread).buckets

    def stretches(*names: str) -> Stretches:
        return joined(
            (each.first, each.last) for each in buckets if any(map(each.count, names))
        )

    return _Moves(
        points=(*_samples(thread), (thread.head_seq, thread.resident_tokens)),
        leaving=stretches("evicted", "lowered"),
        fetched=stretches("faults"),
        refused=stretches("refused"),
    )


def _samples(thread: Thread) -> list[tuple[int, int]]:
    """Return what snapshots hold, evenly thinned out. At most two queries.

    Every second one goes as soon as there are too many, so that those which were
    opened before mostly stay.
    """
    rows = Snapshot.objects.filter(thread_id=thread.id)
    seqs = [*rows.order_by("seq").values_list("seq", flat=True)]
    while len(seqs) > SAMPLES:
        seqs = seqs[1::2]
    epoch = thread.subject.epoch
    found = {seq: sampled.get((thread.id, epoch, seq)) for seq in seqs}
    missing = [seq for seq, tokens in found.items() if tokens is None]
    for row in rows.filter(seq__in=missing) if missing else ():
        tokens = snapshots.used_tokens(row, thread)
        sampled.put((thread.id, epoch, row.seq), tokens)
        found[row.seq] = tokens
    return [(seq, tokens) for seq, tokens in found.items() if tokens is not None]


def joined(stretches: Iterable[tuple[int, int]]) -> Stretches:
    """Join stretches that follow each other without a gap. Pure."""
    found: list[tuple[int, int]] = []
    for first, last in stretches:
        if found and found[-1][1] >= first - 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def _ticks(thread: Thread) -> tuple[tuple[int, int], ...]:
    """Return at most `TICKS` turns of the thread's own. One query."""
    step = tick(thread.turn_count)
    numbers: Sequence[int] = range(step, thread.turn_count + 1, step)
    rows = Turn.objects.filter(thread_id=thread.id, n__in=[1, *numbers])
    return tuple(rows.order_by("n").values_list("n", "seq"))


def tick(count: int) -> int:
    """Return how far apart marks stand, so that at most `TICKS` do. Pure."""
    power = 1
    while True:
        for step in _STEPS:
            if step * power * TICKS >= count:
                return step * power
        power *= 10
