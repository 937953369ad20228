"""Facts of a subject, and the assertions they are derived from. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heappush, heappushpop
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from memoryhub.errors import FactUnknownError
from memoryhub.journal import texts
from memoryhub.kernel.knowledge.derivation import Fact, TimelineAssertion
from memoryhub.kernel.knowledge.facts import FactAsserted, FactRetracted
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import (
    Timeline,
    find_seq_at,
    find_timeline,
    iter_all_timelines,
    iter_timelines,
    list_timelines,
    map_timelines,
    select_rows,
)
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.replay.state_files import CHUNK, StateFile, build_record
from memoryhub.queries.threads.edits import Edit

#: Sources of a fact that a list names, oldest first.
SOURCES = 20
#: Most assertions shown with a fact, newest first; the export has all.
SHOWN = 200
#: Newest assertions among whose timelines `list_recent` looks for facts.
RECENT = 500


class AssertionSource(NamedTuple):
    """Record that an assertion was learnt from."""

    #: The thread's name.
    thread: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FactLine:
    #: Seq of the fact's earliest assertion in the home thread. Facts derived from one
    #: assertion share the seq and differ in `valid_from`.
    id: int
    entity: str
    predicate: str
    value: str
    valid_from: datetime
    #: None: the fact holds until something else is known.
    valid_until: datetime | None
    confirmations: int
    confidence: float | None
    cardinality: Cardinality
    #: Seq of the assertion that ended the fact, or of the assertion of the next value.
    closed_by: int | None
    #: When the fact's earliest assertion was recorded.
    recorded_at: datetime
    #: When it was recorded that the value begins to hold at `valid_from`: later than
    #: `recorded_at` if the value had held before.
    begin_recorded_at: datetime
    #: Whether that was before `valid_from`, by an assertion of this very begin.
    ahead: bool
    sources: tuple[AssertionSource, ...]

    def is_valid_at(self, at: datetime) -> bool:
        later = self.valid_until is None or at < self.valid_until
        return self.valid_from <= at and later


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionLine:
    seq: int
    at: datetime
    by: str
    origin: str
    entity: str
    predicate: str
    value: str
    valid_from: datetime
    valid_until: datetime | None
    confidence: float | None
    many: bool
    source: AssertionSource | None
    retracted_seq: int | None
    #: Whether the assertion was retracted as wrong.
    wrong: bool
    #: Whether facts are derived from the assertion.
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FactStory:
    """A fact, with the assertions and facts of its timeline."""

    fact: FactLine
    #: Assertions of the fact's timeline, newest first, at most SHOWN.
    assertions: tuple[AssertionLine, ...]
    #: Seqs of the assertions that the fact rests on.
    rests_on: tuple[int, ...]
    #: All facts of the timeline, by begin.
    timeline: tuple[FactLine, ...]
    home: Thread
    #: The timeline that all of these are read from.
    unopened: Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFilter:
    valid_at: datetime
    #: None: by all recorded assertions.
    known_at: datetime | None = None
    #: Include facts that ended by `valid_at`.
    ended: bool = False
    entity: str | None = None
    predicate: str | None = None

    def is_match(self, fact: Fact) -> bool:
        over = self.ended and fact.end is not None and fact.end <= self.valid_at
        return over or fact.is_valid_at(self.valid_at)


def list_facts(
    subject: Subject, where: FactFilter, *, after: str | None = None, limit: int = 50
) -> ListBatch[FactLine]:
    """List facts by timeline, then by begin.

    Six queries, and two more for fifty timelines without a matching fact. Raises
    BadCursorError.
    """
    listing = ListScope(
        name="facts",
        project=subject.project_id,
        filters=[subject.id, where.ended, where.entity, where.predicate],
    )
    since, place = b"", (0.0, 0)
    if after is not None:
        digest, *begun = listing.open(after)
        since, place = bytes.fromhex(digest), (begun[0], begun[1])
    home = find_home(subject)
    if home is None:
        return ListBatch(items=(), next=None)
    found: list[tuple[Timeline, Fact]] = []
    until = find_seq_at(home, where.known_at)
    rows = select_rows(home, entity=where.entity, predicate=where.predicate)
    for timeline in iter_timelines(rows, since=since, known_at=until):
        for fact in timeline.facts:
            behind = timeline.digest != since or _build_position(fact) > place
            if behind and where.is_match(fact):
                found.append((timeline, fact))
        if len(found) > limit:
            break
    batch, more = found[:limit], None
    if len(found) > limit:
        timeline, fact = batch[-1]
        more = listing.seal([timeline.digest.hex(), *_build_position(fact)])
    return ListBatch(items=tuple(iter_fact_lines(home, batch)), next=more)


def iter_facts(
    home: Thread, *, known_at: int, needs: Callable[[Fact], bool]
) -> Iterator[FactLine]:
    """Yield the needed facts by timeline, as known at an event of the home thread.

    Two queries for fifty timelines, and three for 500 facts.
    """
    timelines = iter_timelines(select_rows(home), known_at=known_at)
    found = ((each, fact) for each in timelines for fact in each.facts if needs(fact))
    while batch := [*islice(found, CHUNK)]:
        yield from iter_fact_lines(home, batch)


def list_newest(
    home: Thread, *, at: datetime, limit: int
) -> tuple[tuple[FactLine, ...], int]:
    """Return the newest facts that hold at an instant, and how many facts hold.

    Sorted by begin, then id, newest first. Four queries.
    """
    newest: list[tuple[datetime, int, Timeline, Fact]] = []
    number = 0
    for number, (timeline, fact) in enumerate(_iter_holding(home, at), start=1):
        keep = heappush if number <= limit else heappushpop
        keep(newest, (fact.begin, fact.seq, timeline, fact))
    found = [(timeline, fact) for *_, timeline, fact in sorted(newest, reverse=True)]
    return tuple(iter_fact_lines(home, found)), number


def list_recent(home: Thread, *, at: datetime, limit: int) -> tuple[FactLine, ...]:
    """List facts that hold at an instant, latest confirmed first.

    Looks at the timelines of the RECENT newest assertions alone, so that the cost does
    not grow with the number of facts. Five queries.
    """
    claims = select_rows(home).filter(cardinality=None).order_by("-seq")
    seqs = claims.values_list("seq", flat=True)[:RECENT]
    found = [
        (max(each.seq for each in supports), timeline, fact)
        for timeline in list_timelines(home, [*seqs])
        for fact, supports in timeline.iter_holding(at)
    ]
    found.sort(key=itemgetter(0), reverse=True)
    pairs = ((timeline, fact) for _, timeline, fact in found[:limit])
    return tuple(iter_fact_lines(home, pairs))


def count_holding(home: Thread, *, at: datetime) -> int:
    """Count the facts that hold at an instant. One query."""
    return sum(1 for _ in _iter_holding(home, at))


def _iter_holding(home: Thread, at: datetime) -> Iterator[tuple[Timeline, Fact]]:
    for timeline in iter_all_timelines(home):
        for fact in timeline.facts:
            if fact.is_valid_at(at):
                yield timeline, fact


def _build_position(fact: Fact) -> tuple[float, int]:
    return fact.begin.timestamp(), fact.seq


def get_fact(
    subject: Subject,
    seq: int,
    *,
    now: datetime,
    valid_at: datetime | None = None,
    known_at: datetime | int | None = None,
    nth: int | None = None,
) -> FactStory:
    """Return a fact by its earliest assertion, with the assertions behind the fact.

    If several facts share the id: the `nth` fact of the timeline, else the fact that
    holds at `valid_at` or now, else the newest. `known_at` may be an event of the home
    thread. Any other assertion leads to the fact that rests on the assertion. Nine
    queries. Raises FactUnknownError.
    """
    home = find_home(subject)
    if home is None:
        raise FactUnknownError
    until = known_at if isinstance(known_at, int) else find_seq_at(home, known_at)
    timeline = find_timeline(home, seq, known_at=until)
    if timeline is None:
        raise FactUnknownError
    fact = choose_fact(timeline, seq, at=valid_at or now)
    if nth is not None and nth < len(timeline.facts):
        fact = timeline.facts[nth]
    if fact is None:
        raise FactUnknownError
    newest = timeline.recorded[::-1][:SHOWN]
    all_lines = tuple(
        iter_fact_lines(home, [(timeline, each) for each in timeline.facts])
    )
    return FactStory(
        fact=all_lines[timeline.facts.index(fact)],
        assertions=tuple(iter_assertion_lines(home, [(timeline, a) for a in newest])),
        rests_on=tuple(each.seq for each in timeline.list_supports(fact)),
        timeline=all_lines,
        home=home,
        unopened=timeline,
    )


def find_edit(home: Thread, seq: int) -> Edit | None:
    """Find the fact that an operator asserted by an event; None for any other event.

    The edit stands while the assertion is the newest about its property. Three queries.
    """
    rows = Event.objects.filter(thread=home, seq=seq, type=FactAsserted.event_type)
    row = rows.filter(actor__startswith="operator:").only("seq", "actor").first()
    timeline = find_timeline(home, seq) if row else None
    if row is None or timeline is None:
        return None
    newest = timeline.assertions[-1]
    stands = newest.seq == seq and newest.retracted_seq is None
    return Edit(seq=seq, actor=row.actor, fact=True, standing=stands)


def find_undos(
    home: Thread, lines: Sequence[AssertionLine]
) -> tuple[set[int], set[int]]:
    """Return the seqs of assertions that operators undid, and that undos brought back.

    An undo withdraws what operators asserted, and asserts in its commit what was there
    before; a correction that withdraws a value asserts another. One query.
    """
    taken = {
        each.seq: each.retracted_seq
        for each in lines
        if each.by.startswith("operator:")
    }
    gone = sorted(
        (each.retracted_seq, each.value) for each in lines if each.retracted_seq
    )
    first_gone = {value: seq for seq, value in reversed(gone)}
    news = {
        (each.at, each.by)
        for each in lines
        if first_gone.get(each.value, each.seq) >= each.seq
    }
    rows = Event.objects.filter(
        thread=home,
        seq__in={seq for seq in taken.values() if seq is not None},
        type=FactRetracted.event_type,
        actor__startswith="operator:",
    )
    undos = {
        row.seq: (row.at, row.actor)
        for row in rows.only("seq", "at", "actor", "body")
        if orjson.loads(row.body)["reason"] == "withdrawn"
        and (row.at, row.actor) not in news
    }
    commits = {commit: seq for seq, commit in undos.items()}
    back = {
        each.seq
        for each in lines
        if commits.get((each.at, each.by), each.seq) < each.seq
    }
    return {seq for seq, retracted in taken.items() if retracted in undos}, back


def choose_fact(timeline: Timeline, seq: int, *, at: datetime) -> Fact | None:
    """Return the fact of an id: the fact that holds at an instant, else the newest."""
    own = [fact for fact in timeline.facts if fact.seq == seq] or [
        fact
        for fact in timeline.facts
        if any(each.seq == seq for each in timeline.list_supports(fact))
    ]
    holding = [fact for fact in own if fact.is_valid_at(at)]
    found = holding or own
    return found[-1] if found else None


def list_wrong(subject: Subject) -> tuple[AssertionLine, ...]:
    """List assertions that were retracted as wrong, newest first, at most SHOWN.

    Models cannot assert the values of these assertions. Left out are values that
    somebody else has asserted since. Six queries.
    """
    home = find_home(subject)
    if home is None:
        return ()
    wrong = select_rows(home).filter(wrong=True).order_by("-seq")[:SHOWN]
    found = dict(wrong.values_list("seq", "timeline"))
    rows = select_rows(home).filter(timeline__in={*found.values()})
    pairs = [
        (timeline, each)
        for timeline in iter_timelines(rows)
        for each in timeline.assertions
        if each.seq in found
        and not any(
            (later.value, later.by_model) == (each.value, False)
            and later.seq > (each.retracted_seq or 0)
            for later in timeline.living
        )
    ]
    found_lines = iter_assertion_lines(home, pairs)
    return tuple(sorted(found_lines, key=lambda line: -line.seq))


def list_without_effect(
    home: UUID, seqs: Collection[int], *, known_at: int
) -> list[int]:
    """List the seqs of assertions that did not count once they were made.

    A model's assertion does not count if its value was retracted as wrong, and nobody
    else asserted it since. No query without assertions, else four for fifty timelines.
    """
    if not seqs:
        return []
    found = map_timelines(Thread.objects.get(id=home), seqs, known_at=known_at)
    return [
        seq
        for seq in seqs
        if seq in found and all(each.seq != seq for each in found[seq].living)
    ]


def iter_fact_lines(
    home: Thread, found: Iterable[tuple[Timeline, Fact]]
) -> Iterator[FactLine]:
    """Yield lines of these facts, with their contents. Three queries."""
    rests = [
        (t, fact, t.list_supports(fact)[:SOURCES], t.find_beginning(fact))
        for t, fact in found
    ]
    seqs = {seq for _, fact, _, begun in rests for seq in (fact.seq, begun)}
    opened = texts.open_events_at(home, [(home.id, seq) for seq in seqs])
    sources = _list_sources(home, [each.seq for _, _, of, _ in rests for each in of])
    for timeline, fact, of, begun in rests:
        first, beginning = opened[home.id, fact.seq], opened[home.id, begun]
        claim = timeline.find_assertion(begun)
        content = first.content or {}
        yield FactLine(
            id=fact.seq,
            entity=content.get("entity", ""),
            predicate=content.get("predicate", ""),
            value=content.get("value", ""),
            valid_from=fact.begin,
            valid_until=fact.end,
            confirmations=fact.confirmations,
            confidence=fact.confidence,
            cardinality=timeline.cardinality,
            closed_by=fact.closed_by,
            recorded_at=first.at,
            begin_recorded_at=beginning.at,
            ahead=claim is not None and claim.valid_from == fact.begin > beginning.at,
            sources=tuple(sources[a.seq] for a in of if a.seq in sources),
        )


def iter_assertion_lines(
    home: Thread, found: Sequence[tuple[Timeline, TimelineAssertion]]
) -> Iterator[AssertionLine]:
    """Yield lines of these assertions, with contents. Three queries for 500 lines."""
    counting = {each.seq for timeline, _ in found for each in timeline.living}
    seqs = [each.seq for _, each in found]
    opened = texts.open_events_at(home, [(home.id, seq) for seq in seqs])
    sources = _list_sources(home, seqs)
    rows = select_rows(home).filter(seq__in=seqs)
    origins = dict(rows.values_list("seq", "origin"))
    for _, each in found:
        event = opened[home.id, each.seq]
        content: Mapping[str, Any] = event.content or {}
        yield AssertionLine(
            seq=each.seq,
            at=event.at,
            by=event.actor,
            origin=origins.get(each.seq, ""),
            entity=content.get("entity", ""),
            predicate=content.get("predicate", ""),
            value=content.get("value", ""),
            valid_from=each.valid_from,
            valid_until=each.valid_until,
            confidence=each.confidence,
            many=content.get("many", False),
            source=sources.get(each.seq),
            retracted_seq=each.retracted_seq,
            wrong=each.wrong,
            counts=each.seq in counting,
        )


def _list_sources(home: Thread, seqs: Collection[int]) -> dict[int, AssertionSource]:
    """List sources of assertions, by the assertion's seq. One query."""
    rows = Derivation.objects.filter(derived_thread=home.id, derived_seq__in=[*seqs])
    columns = ("derived_seq", "thread__name", "source_seq")
    return {
        seq: AssertionSource(thread=name, seq=source)
        for seq, name, source in rows.values_list(*columns)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionRecord:
    """An assertion about the subject; facts are derived from all assertions."""

    thread: UUID
    seq: int
    at: datetime
    by: str
    origin: str
    entity: str | None
    predicate: str | None
    value: str | None
    valid_from: str | None
    valid_until: str | None
    confidence: float | None
    many: bool | None
    retracted_seq: int | None
    wrong: bool


#: Fields of a record that come from the content of its event.
_CONTENT = (
    *("entity", "predicate", "value", "valid_from", "valid_until"),
    *("confidence", "many"),
)


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[AssertionRecord]:
    held = sorted(state.knowledge.assertions.items())
    for start in range(0, len(held), CHUNK):
        batch = held[start : start + CHUNK]
        opened = texts.open_events(thread, state, [seq for seq, _ in batch])
        for seq, each in batch:
            event = opened[seq]
            content = event.content or {}
            yield build_record(
                AssertionRecord,
                each,
                thread=thread.id,
                seq=seq,
                at=event.at,
                by=event.actor,
                **{name: content.get(name) for name in _CONTENT},
            )


STATES = StateFile(
    path="state/assertions.jsonl",
    record=AssertionRecord,
    lines=_iter_records,
    needs=frozenset({"fact.asserted"}),
    counted="fact.asserted",
)
