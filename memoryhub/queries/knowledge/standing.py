"""Marks of records whose content no longer holds, by the facts learnt from them.

Never writes.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from memoryhub.journal.rows.knowledge import assertion_statements
from memoryhub.kernel.context.contexts import OutdatedMark, SlotMarks
from memoryhub.kernel.knowledge.derivation import Fact
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import (
    find_seq_at,
    list_timelines,
    map_timelines,
)
from memoryhub.queries.threads.forks import get_segments

#: A record: its thread, and its seq there.
Place = tuple[UUID, int]


def find_facts(
    home: Thread, seqs: Collection[int], where: FactFilter
) -> dict[int, Fact | None]:
    """Return the newest fact of each assertion by seq; None where `where` drops it.

    Covers all assertions of the timelines that `seqs` belong to. One query, or two as
    of an instant.
    """
    until = find_seq_at(home, where.known_at)
    found: dict[int, Fact | None] = dict.fromkeys(seqs)
    for timeline in list_timelines(home, seqs, known_at=until):
        found.update([(each.seq, None) for each in timeline.assertions])
        matching = timeline.iter_holding(where.valid_at)
        if where.ended:
            chosen = filter(where.is_match, timeline.facts)
            matching = ((each, timeline.list_supports(each)) for each in chosen)
        for fact, claims in matching:
            found |= dict.fromkeys((each.seq for each in claims), fact)
    return found


def list_marks(
    subject: Subject,
    places: Collection[Place],
    *,
    at: datetime,
    known_at: datetime | None = None,
) -> dict[Place, tuple[OutdatedMark, ...]]:
    """Return marks of the records with an assertion that no longer holds.

    An assertion is judged at the valid time `at`, by what was recorded until
    `known_at`, or until now. One query where nothing was learnt from the records, else
    three.
    """
    learnt = assertion_statements.select_learnt(subject.id, {*places}) if places else []
    return _find_marks(subject, learnt, at=at, known_at=known_at)


def list_log_marks(
    thread: Thread, ranges: Collection[tuple[int, int]], *, at: datetime
) -> tuple[SlotMarks, ...]:
    """Return marks of slots that the log covers and that no longer hold, by slot.

    The log stands for slots in `ranges`, [begin, end) each. One query where nothing was
    learnt from the thread, two where nothing of it may be outdated, else four. One more
    query with marks.
    """
    parts = {each.thread: each for each in get_segments(thread)}
    learnt = assertion_statements.select_learnt_in(thread.subject_id, parts)
    found = _find_marks(thread.subject, learnt, at=at)
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


def _find_marks(
    subject: Subject,
    learnt: Collection[tuple[UUID, int, int]],
    *,
    at: datetime,
    known_at: datetime | None = None,
) -> dict[Place, tuple[OutdatedMark, ...]]:
    home = find_home(subject) if learnt else None
    if home is None:
        return {}
    claims = [((thread, source), seq) for thread, source, seq in learnt]
    until = find_seq_at(home, known_at)
    timelines = map_timelines(home, [seq for _, seq in claims], known_at=until)
    found: dict[Place, list[OutdatedMark]] = {}
    for place, seq in claims:
        timeline = timelines.get(seq)
        claim = timeline.find_assertion(seq) if timeline else None
        gone = timeline.find_outdated(claim, at) if timeline and claim else None
        if gone is not None:
            found.setdefault(place, []).append(OutdatedMark(home.id, *gone))
    return {place: tuple(marks) for place, marks in found.items()}
