"""Lanes: timelines in words, with retracted and late assertions. Never writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from memoryhub.kernel.knowledge.derivation import Fact, TimelineAssertion
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import AssertionLine, FactLine
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import Timeline, iter_timelines, select_rows

#: Lanes of a page, facts drawn in a lane, and retracted assertions shown in a lane.
LANES, DRAWN, RETRACTED = 50, 100, 3
#: An assertion is late if another value was believed for so long before it.
LATE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A timeline in words, as known at an event of the home thread."""

    cardinality: Cardinality
    #: The newest DRAWN facts, by begin.
    facts: tuple[FactLine, ...]
    #: Index in the timeline's facts of the first fact in `facts`.
    first: int
    #: Newest first.
    retracted: tuple[AssertionLine, ...]
    #: Facts believed until the newest late assertion, and the time of that assertion.
    believed: tuple[FactLine, ...]
    corrected_at: datetime | None
    #: Seqs of the late assertions.
    late: frozenset[int]

    @property
    def entity(self) -> str:
        return self._first_line.entity

    @property
    def predicate(self) -> str:
        return self._first_line.predicate

    @property
    def _first_line(self) -> FactLine | AssertionLine:
        return self.facts[0] if self.facts else self.retracted[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionMark:
    """An assertion in the order of recording."""

    seq: int
    late: bool
    retracted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    #: None: nothing was ever asserted of the subject.
    home: Thread | None
    known_at: int
    #: When the event `known_at` was recorded.
    recorded_at: datetime | None
    lanes: tuple[Lane, ...] = ()
    marks: tuple[AssertionMark, ...] = ()
    #: Digest of the timeline that the next page begins with; None at the end.
    more: str | None = None


class _DrawnTimeline(NamedTuple):
    """A timeline, with the facts and assertions of the timeline to draw."""

    timeline: Timeline
    late: list[int]
    facts: list[tuple[Timeline, Fact]]
    believed: list[tuple[Timeline, Fact]]
    gone: list[tuple[Timeline, TimelineAssertion]]


def get_lanes(
    subject: Subject, *, known_at: int | None = None, since: str = ""
) -> Lanes:
    """Return lanes in the order of their timelines' digests, from `since` on.

    Nine queries, and three for each further 500 facts that are drawn.
    """
    home = find_home(subject)
    if home is None:
        return Lanes(home=None, known_at=0, recorded_at=None)
    head = home.head_seq
    seq = head if known_at is None else min(known_at, head)
    rows = iter_timelines(select_rows(home), since=bytes.fromhex(since), known_at=seq)
    found = [*islice(rows, LANES + 1)]
    seqs = {each.seq for timeline in found for each in timeline.assertions}
    recorded = Event.objects.filter(thread=home, seq__in=[*seqs, seq])
    times = dict(recorded.values_list("seq", "at"))
    parts = [_choose_drawn(each, _find_late(each, times)) for each in found[:LANES]]
    shown = [part for part in parts if part.facts or part.gone]
    late = {n for part in parts for n in part.late}
    marks = [
        AssertionMark(
            seq=each.seq,
            late=each.seq in late,
            retracted=each.retracted_seq is not None,
        )
        for timeline in found
        for each in timeline.assertions
    ]
    return Lanes(
        home=home,
        known_at=seq,
        recorded_at=times.get(seq),
        lanes=tuple(_build_lanes(home, shown, times)),
        marks=tuple(sorted(marks, key=lambda mark: mark.seq)),
        more=found[LANES].digest.hex() if len(found) > LANES else None,
    )


def _choose_drawn(timeline: Timeline, late: list[int]) -> _DrawnTimeline:
    until = timeline.known_at
    gone = [
        each
        for each in timeline.recorded
        if each.retracted_seq and (until is None or each.retracted_seq <= until)
    ]
    # The timeline as believed before the newest late assertion.
    before = timeline.as_of(late[-1] - 1) if late else None
    earlier = before.facts[-DRAWN:] if before else []
    return _DrawnTimeline(
        timeline=timeline,
        late=late,
        facts=[(timeline, fact) for fact in timeline.facts[-DRAWN:]],
        believed=[(before, fact) for fact in earlier if before],
        gone=[(timeline, each) for each in gone[::-1][:RETRACTED]],
    )


def _build_lanes(
    home: Thread, parts: Sequence[_DrawnTimeline], times: Mapping[int, datetime]
) -> list[Lane]:
    """Build all lanes at once, sorted by entity and predicate."""
    lines = facts.iter_fact_lines(
        home, [f for part in parts for f in part.facts + part.believed]
    )
    gone = facts.iter_assertion_lines(
        home, [each for part in parts for each in part.gone]
    )
    found = [
        Lane(
            cardinality=part.timeline.cardinality,
            facts=tuple(islice(lines, len(part.facts))),
            believed=tuple(islice(lines, len(part.believed))),
            retracted=tuple(islice(gone, len(part.gone))),
            first=len(part.timeline.facts) - len(part.facts),
            corrected_at=times.get(part.late[-1]) if part.late else None,
            late=frozenset(part.late),
        )
        for part in parts
    ]
    return sorted(found, key=lambda lane: (lane.entity, lane.predicate))


def _find_late(timeline: Timeline, times: Mapping[int, datetime]) -> list[int]:
    """List seqs of assertions before which another value was believed for LATE."""
    if timeline.cardinality == "multi":
        return []
    found: list[int] = []
    #: When each value was first asserted.
    since: dict[bytes, datetime] = {}
    for each in sorted(timeline.living, key=lambda each: each.seq):
        at = times[each.seq]
        others = [at_first for value, at_first in since.items() if value != each.value]
        if others and at - max(min(others), each.valid_from) >= LATE:
            found.append(each.seq)
        since.setdefault(each.value, at)
    return found
