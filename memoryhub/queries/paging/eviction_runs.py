"""Eviction runs: what left a working set, or was shortened, and for what.

Never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from memoryhub.kernel.state import page_events
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import newcomers
from memoryhub.queries.paging.newcomers import Newcomer
from memoryhub.queries.paging.residency import Why, why_each
from memoryhub.queries.threads import evicted_pages
from memoryhub.queries.threads.evicted_pages import EVICTED, Body, split_evictions

LOWERED = page_events.PageLowered.event_type
LEAVING = (*EVICTED, LOWERED)
#: Events that a run is looked for on each side, and the last one before a moment.
REACH, BACK = 400, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionStep:
    """One page that left the working set, or was shortened in its place."""

    seq: int
    page_id: str
    #: The level that it stands at since then; None when it left.
    level: int | None
    #: Tokens that this freed.
    freed: int
    #: The keep score it lost by; None where someone asked for it.
    score: float | None
    cause: str
    by: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRun:
    """Events in a row by which pages leave, and what came next into their place."""

    steps: tuple[EvictionStep, ...]
    #: None for a run that only shrinks the working set, or one that still goes on.
    newcomer: Newcomer | None

    @property
    def first(self) -> int:
        return self.steps[0].seq

    @property
    def last(self) -> int:
        return self.steps[-1].seq

    @property
    def freed(self) -> int:
        return sum(each.freed for each in self.steps)

    def up_to(self, seq: int) -> tuple[EvictionStep, ...]:
        """Return those that had gone as of an event."""
        return tuple(each for each in self.steps if each.seq <= seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionReason:
    """Why a page lost its place: its score as the run began, and who came after it."""

    step: EvictionStep
    #: As of the event before the run; None where the score was another one.
    why: Why | None
    #: The page whose score it was, if another one took it along.
    leader: str | None
    #: The page that was next, and its score; None when no other could leave.
    next_page: str | None
    next_score: float | None
    #: In which the page was last referred to; None when that is not known.
    used_turn: int | None


def get_run(thread: Thread, seq: int) -> EvictionRun | None:
    """Return the run that an event is of, or ends, else the last one before it.

    None if none is within reach. At most two queries, whatever the run's length.
    """
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gt=seq - BACK,
        seq__lte=min(seq + REACH, thread.head_seq),
        type__in=LEAVING,
    )
    listed = rows.order_by("seq").values_list("seq", "type", "body")
    found = [step for row in listed for step in _steps(*row)]
    run = _row_at(found, seq)
    if not run:
        return None
    return EvictionRun(steps=run, newcomer=_newcomer(thread, run[-1]))


def explain(
    before: ThreadState, step: EvictionStep, run: EvictionRun
) -> EvictionReason:
    """Explain a step by the state before its run. Pure.

    Scores are ranks among the pages there are, so it is that state that tells.
    """
    each = why_each(before, before.paging.in_order())
    whys = {frame.page_id: why for frame, why, _ in each}
    turns = {frame.page_id: frame.referenced_turn for frame, _, _ in each}
    weighed = _weighed(step, run, whys)
    left = {one.page_id for one in run.steps if one.level is None}
    stayed = sorted(
        (why.score, page_id)
        for page_id, why in whys.items()
        if page_id not in left and why.rank is not None
    )
    following = [one for one in stayed if one[0] >= (step.score or 0.0)]
    score, page_id = following[0] if following else (None, None)
    return EvictionReason(
        step=step,
        why=whys[weighed] if weighed else None,
        leader=weighed if weighed != step.page_id else None,
        next_page=page_id,
        next_score=score,
        used_turn=turns.get(step.page_id),
    )


def _weighed(step: EvictionStep, run: EvictionRun, whys: dict[str, Why]) -> str | None:
    """Return the page whose score it was: its own, or that of one it goes with."""
    if step.score is None:
        return None
    together = [each for each in run.steps if each.score == step.score]
    together.sort(key=lambda each: abs(each.seq - step.seq))
    for each in together:
        why = whys.get(each.page_id)
        if why is not None and _same(why, step.score):
            return each.page_id
    return None


def last_steps(
    thread: Thread, page_ids: Iterable[str], *, up_to: int
) -> dict[str, EvictionStep]:
    """Return how each of these pages last left or was shortened, as of an event.

    Three queries. Pages that an ancestor evicted, or none did, are left out.
    """
    wanted = {*page_ids}
    rows = Event.objects.filter(
        thread_id=thread.id, page__in=wanted, type__in=LEAVING, seq__lte=up_to
    )
    joined = evicted_pages.list_places([(thread.id, up_to)], wanted, newest=1)
    among = Event.objects.at_places({place for place, _ in joined})
    found: dict[str, EvictionStep] = {}
    # Sorted here: in order they would be looked for among all events before.
    columns = ("seq", "type", "body")
    for row in sorted([*rows.values_list(*columns), *among.values_list(*columns)]):
        for step in _steps(*row):
            if step.page_id in wanted:
                found[step.page_id] = step
    return found


def _same(why: Why, score: float) -> bool:
    return abs(why.score - score) < 0.000_001


def _steps(seq: int, kind: str, text: str) -> list[EvictionStep]:
    """Read an event's body; nothing of a page that only went off the hot list."""
    return [
        _step(seq, body, lowered=kind == LOWERED)
        for _, body in split_evictions(kind, orjson.loads(text))
        if kind == LOWERED or body["tier_before"] == "L0"
    ]


def _step(seq: int, body: Body, *, lowered: bool) -> EvictionStep:
    return EvictionStep(
        seq=seq,
        page_id=body["page_id"],
        level=body["level"] if lowered else None,
        freed=body["tokens_before"] - body["tokens"] if lowered else body["tokens"],
        score=body.get("score"),
        cause=body.get("cause", "command"),
        by=body.get("by", "tool"),
        policy=body["policy"],
    )


def _row_at(found: Sequence[EvictionStep], seq: int) -> tuple[EvictionStep, ...]:
    """Return those that follow each other without a gap, around or before an event."""
    at = next((n for n in range(len(found), 0, -1) if found[n - 1].seq <= seq), 0)
    if not at:
        return ()
    first = last = at - 1
    while first and found[first - 1].seq >= found[first].seq - 1:
        first -= 1
    while last + 1 < len(found) and found[last + 1].seq <= found[last].seq + 1:
        last += 1
    return tuple(found[first : last + 1])


def _newcomer(thread: Thread, last: EvictionStep) -> Newcomer | None:
    """Read what a run made room for: what came right after it. One query."""
    if last.cause != newcomers.PRESSURE:
        return None
    rows = Event.objects.filter(thread_id=thread.id, seq=last.seq + 1)
    row = rows.values_list("seq", "type", "body").first()
    if row is None:
        return None
    seq, kind, body = row
    return newcomers.read_newcomer(seq, kind, orjson.loads(body))
