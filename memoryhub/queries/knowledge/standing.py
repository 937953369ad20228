"""Standing: what still holds of what was said, by the facts learnt from it.

Never writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from memoryhub.journal.rows import statements
from memoryhub.kernel.knowledge.derivation import Assertion, Fact
from memoryhub.kernel.levels.contexts import Mark, SlotMarks
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import (
    Timeline,
    list_timelines_of,
    seq_at,
    timelines_of,
)
from memoryhub.queries.threads.forks import get_segments

#: A record: its thread, and its seq there.
Place = tuple[UUID, int]


#: A fact: its timeline and value, and when it begins.
FactKey = tuple[bytes, bytes, datetime]


class FoundFact(NamedTuple):
    """A fact that an assertion is one of."""

    fact: Fact
    #: Equal for assertions of the same fact.
    key: FactKey


def facts_of(
    home: Thread, seqs: Collection[int], where: FactFilter
) -> dict[int, FoundFact | None]:
    """Return the facts that assertions lead to; None of those that `where` drops.

    Of several the newest. Of all assertions of their timelines, in one query, or two
    as of an instant.
    """
    until = seq_at(home, where.known_at)
    found: dict[int, FoundFact | None] = dict.fromkeys(seqs)
    for timeline in list_timelines_of(home, seqs, known_at=until):
        found.update([(each.seq, None) for each in timeline.assertions])
        for fact, claims in _iter_matching(timeline, where):
            key = (timeline.digest, fact.value, fact.begin)
            found |= dict.fromkeys((c.seq for c in claims), FoundFact(fact, key))
    return found


def _iter_matching(
    timeline: Timeline, where: FactFilter
) -> Iterator[tuple[Fact, Sequence[Assertion]]]:
    if not where.ended:
        yield from timeline.iter_holding(where.valid_at)
        return
    for fact in timeline.facts:
        if where.matches(fact):
            yield fact, timeline.supports(fact)


def list_marks(
    subject: Subject,
    places: Collection[Place],
    *,
    at: datetime,
    known_at: datetime | None = None,
) -> dict[Place, tuple[Mark, ...]]:
    """Return what of these records no longer holds, of those of which anything is so.

    At an instant of the world, by what was known at another, or is by now. One query
    where nothing was learnt from any, else three.
    """
    learnt = statements.select_learnt(subject.id, {*places}) if places else []
    return _marks_of(subject, learnt, at=at, known_at=known_at)


def list_log_marks(
    thread: Thread, ranges: Collection[tuple[int, int]], *, at: datetime
) -> tuple[SlotMarks, ...]:
    """Return what no longer holds of what the log of a thread tells, by slot.

    The log stands for slots in `ranges`, [begin, end) each. One query where nothing was
    learnt from the thread that may be outdated, else three, and one more where any is.
    """
    parts = {each.thread: each for each in get_segments(thread)}
    learnt = statements.select_learnt_in(thread.subject_id, parts)
    found = _marks_of(thread.subject, learnt, at=at)
    if not found:
        return ()
    rows = Slot.objects.filter(
        thread__in={home for home, _ in found}, seq__in={seq for _, seq in found}
    )
    slots = rows.order_by("index").values_list("thread_id", "seq", "index")
    return tuple(
        SlotMarks(index, found[home, seq])
        for home, seq, index in slots
        if (home, seq) in found
        and index < parts[home].end
        and any(begin <= index < end for begin, end in ranges)
    )


def _marks_of(
    subject: Subject,
    learnt: Collection[tuple[UUID, int, int]],
    *,
    at: datetime,
    known_at: datetime | None = None,
) -> dict[Place, tuple[Mark, ...]]:
    home = find_home(subject) if learnt else None
    if home is None:
        return {}
    claims = [((thread, source), seq) for thread, source, seq in learnt]
    until = seq_at(home, known_at)
    timelines = timelines_of(home, [seq for _, seq in claims], known_at=until)
    found: dict[Place, list[Mark]] = {}
    for place, seq in claims:
        timeline = timelines.get(seq)
        claim = timeline.claim(seq) if timeline else None
        gone = timeline.outdated(claim, at) if timeline and claim else None
        if gone is not None:
            found.setdefault(place, []).append(Mark(home.id, *gone))
    return {place: tuple(marks) for place, marks in found.items()}
