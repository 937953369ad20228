"""Eviction runs: pages that left a working set or were shortened, and the cause.

Never writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import orjson

from memoryhub.kernel.state import page_events
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import newcomers
from memoryhub.queries.paging.newcomers import Newcomer
from memoryhub.queries.paging.residency import KeepReason, explain_frames
from memoryhub.queries.threads import evicted_pages
from memoryhub.queries.threads.evicted_pages import EVICTED, Body, split_evictions

LOWERED = page_events.PageLowered.event_type
LEAVING = (*EVICTED, LOWERED)
#: Number of events searched on each side of a run, and back from an instant.
REACH, BACK = 400, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionStep:
    """One page that left the working set or was shortened in place."""

    seq: int
    page_id: str
    #: The page's level after the step; None when the page left.
    level: int | None
    #: Tokens freed by the step.
    freed: int
    #: The keep score at the eviction; None where a command asked for the step.
    score: float | None
    cause: str
    by: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRun:
    """Consecutive evictions, and the page that took the freed room."""

    steps: tuple[EvictionStep, ...]
    #: None for a run that only shrinks the working set or has not ended.
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

    def list_up_to(self, seq: int) -> tuple[EvictionStep, ...]:
        """Return the steps up to an event."""
        return tuple(each for each in self.steps if each.seq <= seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionReason:
    """Reason for an eviction: the page's score before the run, and the runner-up."""

    step: EvictionStep
    #: As of the event before the run; None where the step's score was a different one.
    why: KeepReason | None
    #: The page that had the score, if the evicted page left together with that page.
    leader: str | None
    #: The next eviction candidate that the run neither evicted nor shortened, and its
    #: score; None when no other page could leave.
    next_page: str | None
    next_score: float | None
    #: The turn in which the page was last referenced; None when unknown.
    used_turn: int | None


def get_run(thread: Thread, seq: int) -> EvictionRun | None:
    """Return the run that contains or precedes an event, or that the event ends.

    None if no run is within reach. At most two queries, whatever the run's length.
    """
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gt=seq - BACK,
        seq__lte=min(seq + REACH, thread.head_seq),
        type__in=LEAVING,
    )
    listed = rows.order_by("seq").values_list("seq", "type", "body")
    run = _select_run(listed, seq)
    if not run:
        return None
    return EvictionRun(steps=run, newcomer=_find_newcomer(thread, run[-1]))


def explain_step(
    before: ThreadState, step: EvictionStep, run: EvictionRun
) -> EvictionReason:
    """Explain a step by the state before its run. Pure.

    Scores are ranks among all pages in the working set, so only the state before the
    run shows them.
    """
    each = explain_frames(before, before.paging.list_in_context_order())
    whys = {frame.page_id: why for frame, why, _ in each}
    turns = {frame.page_id: frame.referenced_turn for frame, _, _ in each}
    weighed = _find_leader(step, run, whys)
    chosen = {one.page_id for one in run.steps}
    stayed = sorted(
        (why.score, page_id)
        for page_id, why in whys.items()
        if page_id not in chosen and why.rank is not None
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


def _find_leader(
    step: EvictionStep, run: EvictionRun, whys: dict[str, KeepReason]
) -> str | None:
    """Return the page that had the score: the step's page, or one evicted with it."""
    if step.score is None:
        return None
    together = [each for each in run.steps if each.score == step.score]
    together.sort(key=lambda each: abs(each.seq - step.seq))
    for each in together:
        why = whys.get(each.page_id)
        if why is not None and _is_same_score(why, step.score):
            return each.page_id
    return None


def find_last_steps(
    thread: Thread, page_ids: Iterable[str], *, up_to: int
) -> dict[str, EvictionStep]:
    """Return each page's last eviction or shortening, as of an event.

    Three queries. Pages that only an ancestor evicted, or that never left, are left
    out.
    """
    wanted = {*page_ids}
    rows = Event.objects.filter(
        thread_id=thread.id, page__in=wanted, type__in=LEAVING, seq__lte=up_to
    )
    joined = evicted_pages.list_places(
        [(thread.id, up_to)], wanted, newest=1, types=EVICTED
    )
    among = Event.objects.filter_places({place for place, _ in joined})
    found: dict[str, EvictionStep] = {}
    # Sort here: an ORDER BY would make the database search all earlier events.
    columns = ("seq", "type", "body")
    for row in sorted([*rows.values_list(*columns), *among.values_list(*columns)]):
        for step in _build_steps(*row):
            if step.page_id in wanted:
                found[step.page_id] = step
    return found


def _is_same_score(why: KeepReason, score: float) -> bool:
    return abs(why.score - score) < 0.000_001


def _build_steps(seq: int, kind: str, text: str) -> list[EvictionStep]:
    """Build steps from an event's body, without pages that left only the hot list."""
    return [
        _build_step(seq, body, lowered=kind == LOWERED)
        for _, body in split_evictions(kind, orjson.loads(text))
        if kind == LOWERED or body["tier_before"] == "L0"
    ]


def _build_step(seq: int, body: Body, *, lowered: bool) -> EvictionStep:
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


def _select_run(
    listed: Iterable[tuple[int, str, str]], seq: int
) -> tuple[EvictionStep, ...]:
    """Return the steps without a gap between them, around or before an event.

    Only bodies of the run are read: one event may have evicted hundreds of pages.
    """
    rows = [*listed]
    at = bisect_right(rows, seq, key=itemgetter(0))
    found = deque[list[EvictionStep]]()
    for row in reversed(rows[:at]):
        if found and row[0] < found[0][0].seq - 1:
            break
        if steps := _build_steps(*row):
            found.appendleft(steps)
    for row in rows[at:] if found else ():
        if row[0] > found[-1][0].seq + 1:
            break
        if steps := _build_steps(*row):
            found.append(steps)
    return tuple(chain.from_iterable(found))


def _find_newcomer(thread: Thread, last: EvictionStep) -> Newcomer | None:
    """Return the page a run made room for, from the next event. One query."""
    if last.cause != newcomers.PRESSURE:
        return None
    rows = Event.objects.filter(thread_id=thread.id, seq=last.seq + 1)
    row = rows.values_list("seq", "type", "body").first()
    if row is None:
        return None
    seq, kind, body = row
    return newcomers.read_newcomer(seq, kind, orjson.loads(body))
