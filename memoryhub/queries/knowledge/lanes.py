"""Lanes: timelines with all that one looks at them for. Never writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from memoryhub.kernel.knowledge.derivation import Assertion, Fact
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import AssertionLine, FactLine
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import Timeline, iter_timelines, rows_of

#: Lanes of a page, facts drawn in one, and retracted assertions.
LANES, DRAWN, RETRACTED = 50, 100, 3
#: Who was told otherwise for so long was told late.
LATE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A timeline in words, as it was known at an event of the home thread."""

    cardinality: Cardinality
    #: By when they begin, the newest DRAWN.
    facts: tuple[FactLine, ...]
    #: Which of the timeline's facts the first of these is.
    first: int
    #: Newest first.
    retracted: tuple[AssertionLine, ...]
    #: What was believed until the newest assertion that came late, and when that was.
    believed: tuple[FactLine, ...]
    corrected_at: datetime | None
    #: Seqs of the assertions that came late.
    late: frozenset[int]

    @property
    def entity(self) -> str:
        return self._any.entity

    @property
    def predicate(self) -> str:
        return self._any.predicate

    @property
    def _any(self) -> FactLine | AssertionLine:
        return self.facts[0] if self.facts else self.retracted[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An assertion in the order of recording."""

    seq: int
    late: bool
    retracted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    #: None: nothing was ever asserted of it.
    home: Thread | None
    known_at: int
    #: When the last event was recorded that it goes by.
    recorded_at: datetime | None
    lanes: tuple[Lane, ...] = ()
    marks: tuple[Mark, ...] = ()
    #: The digest that the next part begins with.
    more: str | None = None


class _Part(NamedTuple):
    """A timeline, and what of it is drawn."""

    timeline: Timeline
    late: list[int]
    facts: list[tuple[Timeline, Fact]]
    believed: list[tuple[Timeline, Fact]]
    gone: list[tuple[Timeline, Assertion]]


def get_lanes(
    subject: Subject, *, known_at: int | None = None, since: str = ""
) -> Lanes:
    """Return lanes by their timelines' digests, from `since` on.

    Nine queries, and three for each further 500 facts that are drawn.
    """
    home = find_home(subject)
    if home is None:
        return Lanes(home=None, known_at=0, recorded_at=None)
    head = home.head_seq
    seq = head if known_at is None else min(known_at, head)
    rows = iter_timelines(rows_of(home), since=bytes.fromhex(since), known_at=seq)
    found = [*islice(rows, LANES + 1)]
    seqs = {each.seq for timeline in found for each in timeline.assertions}
    times = facts.recorded(home, seqs | {seq})
    parts = [_part(each, _late(each, times)) for each in found[:LANES]]
    shown = [part for part in parts if part.facts or part.gone]
    return Lanes(
        home=home,
        known_at=seq,
        recorded_at=times.get(seq),
        lanes=tuple(_lanes(home, shown, times)),
        marks=tuple(_marks(found, {n for part in parts for n in part.late})),
        more=found[LANES].digest.hex() if len(found) > LANES else None,
    )


def _part(timeline: Timeline, late: list[int]) -> _Part:
    facts_of = timeline.facts[-DRAWN:]
    gone = [each for each in timeline.recorded if _gone(timeline, each)]
    # What one believed before the newest assertion that came late.
    before = timeline.as_of(late[-1] - 1) if late else None
    earlier = before.facts[-DRAWN:] if before else []
    return _Part(
        timeline=timeline,
        late=late,
        facts=[(timeline, fact) for fact in facts_of],
        believed=[(before, fact) for fact in earlier if before],
        gone=[(timeline, each) for each in gone[::-1][:RETRACTED]],
    )


def _lanes(
    home: Thread, parts: Sequence[_Part], times: Mapping[int, datetime]
) -> list[Lane]:
    """Tell all of them at once, by entity and predicate."""
    lines = facts.lines(home, [f for part in parts for f in part.facts + part.believed])
    gone = facts.assertion_lines(home, [each for part in parts for each in part.gone])
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


def _gone(timeline: Timeline, each: Assertion) -> bool:
    seq = each.retracted_seq
    known_at = timeline.known_at
    return seq is not None and (known_at is None or seq <= known_at)


def _late(timeline: Timeline, times: Mapping[int, datetime]) -> list[int]:
    """Seqs of assertions before which one was told otherwise for LATE, in order."""
    if timeline.cardinality == "multi":
        return []
    found: list[int] = []
    #: By value, since when it was told.
    since: dict[bytes, datetime] = {}
    for each in sorted(timeline.living, key=lambda each: each.seq):
        at = times[each.seq]
        others = [at_first for value, at_first in since.items() if value != each.value]
        if others and at - max(min(others), each.valid_from) >= LATE:
            found.append(each.seq)
        since.setdefault(each.value, at)
    return found


def _marks(found: list[Timeline], late: set[int]) -> list[Mark]:
    marks = [
        Mark(
            seq=each.seq,
            late=each.seq in late,
            retracted=each.retracted_seq is not None,
        )
        for timeline in found
        for each in timeline.assertions
    ]
    return sorted(marks, key=lambda mark: mark.seq)
