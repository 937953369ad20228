"""Derivation: the facts that the assertions of one timeline add up to. Pure.

A timeline is what is asserted of one entity by one predicate. Nothing is updated in
place: whoever learns more asserts it, and all facts are derived again. Intervals are
half-open, and an end of None is none. For n assertions it takes n log n steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from memoryhub.kernel.state.knowledge import Cardinality

#: Predicates of which several values hold at once, unless an operator says otherwise.
MULTI: Final = frozenset(
    {
        "likes",
        "dislikes",
        "knows",
        "speaks",
        "owns",
        "uses",
        "visited",
        "has_child",
        "has_pet",
        "has_skill",
        "allergic_to",
        "interested_in",
        "member_of",
        "works_with",
    }
)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_BEGIN: Final = attrgetter("valid_from")
#: In which claims take each other's place.
_RANK: Final = attrgetter("valid_from", "seq")
#: By value, in their order.
Ends = Mapping[bytes, Sequence[datetime]]


class Assertion(NamedTuple):
    """One claim: a value, and when it is said to hold."""

    seq: int
    #: Equal for values that fold to the same.
    value: bytes
    valid_from: datetime
    valid_until: datetime | None = None
    confidence: float | None = None
    #: It says, or its predicate does, that several values hold at once.
    many: bool = False
    #: A model made it, unlike an agent or an operator.
    by_model: bool = False
    retracted_seq: int | None = None
    #: It was retracted as wrong.
    wrong: bool = False


class Configured(NamedTuple):
    """What an operator said of a timeline; None takes it back."""

    seq: int
    cardinality: Cardinality | None


class Fact(NamedTuple):
    """A maximal run of one value."""

    #: Of its earliest assertion, by which it is named.
    seq: int
    value: bytes
    begin: datetime
    end: datetime | None
    confirmations: int
    #: The greatest that any of them has.
    confidence: float | None
    #: Of the assertion that ended it, or of the one that took its place.
    closed_by: int | None = None

    def holds(self, at: datetime) -> bool:
        return self.begin <= at and (self.end is None or at < self.end)


class Outdated(NamedTuple):
    """That a claim does not hold any more, by seqs of assertions of its timeline.

    Without any: it was retracted.
    """

    #: The one that says since when: by its end, or its beginning if it `begins` then.
    since: int | None = None
    begins: bool = False
    #: The one by which something else holds now.
    holds: int | None = None


class _Span(NamedTuple):
    """An assertion, and when it ends by itself."""

    begin: datetime
    seq: int
    end: datetime
    value: bytes
    assertion: Assertion


#: By value, in the order of their begins.
Spans = dict[bytes, list[_Span]]


class _Run(NamedTuple):
    value: bytes
    begin: datetime
    end: datetime
    #: Of the assertion by which it holds at its beginning.
    carrier: int


def live(
    assertions: Iterable[Assertion], *, known_at: int | None = None
) -> list[Assertion]:
    """Return those that count, by what was known at an event of the home thread.

    A retracted one does not, nor what a model says of a value that was retracted as
    wrong.
    """
    standing, wrong = [], set[bytes]()
    for each in assertions:
        if known_at is not None and each.seq > known_at:
            continue
        gone = each.retracted_seq
        if gone is None or (known_at is not None and gone > known_at):
            standing.append(each)
        elif each.wrong:
            wrong.add(each.value)
    return [each for each in standing if not (each.by_model and each.value in wrong)]


def cardinality(
    living: Iterable[Assertion],
    configured: Iterable[Configured] = (),
    *,
    known_at: int | None = None,
) -> Cardinality:
    """Return whether a timeline has one value at a time, by its live assertions.

    What an operator said last counts, then what an assertion or the predicate says.
    """
    words = [each for each in configured if known_at is None or each.seq <= known_at]
    if words and (last := max(words).cardinality):
        return last
    return "multi" if any(each.many for each in living) else "single"


def facts(living: Sequence[Assertion], values: Cardinality) -> list[Fact]:
    """Derive the facts of a timeline from its live assertions, by when they begin.

    But for assertions that begin at one instant their order of arrival has no effect.
    """
    if len(living) == 1:
        # As most timelines have, of which a person may have thousands.
        return [_only(*living)]
    spans = spans_of(living)
    if values == "multi":
        runs = [run for each in spans.values() for run in _single(each)]
    else:
        runs = [*_single(sorted(chain(*spans.values()), key=_rank))]
    by_value: dict[bytes, list[_Run]] = {}
    for run in runs:
        by_value.setdefault(run.value, []).append(run)
    closing = _closing(living)
    if values == "single":
        closing = _replacing(runs) | closing
    found = [
        fact._replace(closed_by=closing.get((fact.value, fact.end)))
        for value, each in spans.items()
        for fact in _facts_of(by_value.get(value, ()), each)
    ]
    return sorted(found, key=lambda fact: (fact.begin, fact.seq))


def iter_holding(
    living: Sequence[Assertion], values: Cardinality, at: datetime
) -> Iterator[tuple[Fact, Sequence[Assertion]]]:
    """Yield the facts that hold at an instant, each with what it rests on.

    Those of `facts` that hold then; no dearer than to sort the assertions, however many
    values came one after the other.
    """
    if values == "single" and len({each.value for each in living}) > 1:
        found = _holding_run(living, at)
        if found is not None:
            run, closed_by = found
            own = [each for each in living if each.value == run.value]
            closing = _closing(own).get((run.value, run.end), closed_by)
            yield from _resting([run], own, {run.end: closing})
        return
    by_value: dict[bytes, list[Assertion]] = {}
    for each in living:
        by_value.setdefault(each.value, []).append(each)
    for own in by_value.values():
        if len(own) == 1 or not any(each.valid_until for each in own):
            fact = _only(*own) if len(own) == 1 else _build_endless_fact(own)
            if fact.holds(at):
                yield fact, sorted(own, key=_RANK)
            continue
        runs = [*_single(sorted(_spans(own, _sorted_ends(own))))]
        held = [run for run in runs if run.begin <= at < run.end]
        closed = {end: seq for (_, end), seq in _closing(own).items()}
        yield from _resting(held, own, closed)


def _resting(
    runs: Sequence[_Run],
    own: Sequence[Assertion],
    closing: Mapping[datetime | None, int | None],
) -> Iterator[tuple[Fact, Sequence[Assertion]]]:
    """Yield runs of one value as facts, with those of its assertions they rest on."""
    spans = spans_of(own)
    (sorted_own,) = spans.values()
    for each in _facts_of(runs, sorted_own):
        fact = each._replace(closed_by=closing.get(each.end))
        yield fact, supports(fact, spans)


def _holding_run(
    living: Sequence[Assertion], at: datetime
) -> tuple[_Run, int | None] | None:
    """Return the run that holds at an instant, and what takes its place.

    Of one value at a time. Another value holds at `since`, before the run begins: from
    then on only those spans count that are not over, and none that stands behind one
    which never ends.
    """
    ends = _sorted_ends(living)
    claims = sorted(living, key=_RANK)
    begun = claims[: bisect_right(claims, at, key=_BEGIN)]
    holding = next((each for each in reversed(begun) if at < _end_of(each, ends)), None)
    if holding is None:
        return None
    value = holding.value
    # Of those that begin at one instant the last counts.
    tops = (next(each) for _, each in groupby(reversed(begun), key=_BEGIN))
    since = next((each.valid_from for each in tops if each.value != value), None)
    if since is not None:
        past = reversed(range(bisect_right(begun, since, key=_BEGIN)))
        first = next((n for n in past if _end_of(begun[n], ends) == _NEVER), 0)
        claims = [each for each in claims[first:] if _end_of(each, ends) > since]
    runs = [*_single([*_spans(claims, ends)])]
    run = next(each for each in runs if each.begin <= at < each.end)
    return run, _replacing(runs).get((value, run.end))


def _build_endless_fact(own: Sequence[Assertion]) -> Fact:
    """The fact of claims of one value, none of which ends."""
    first = min(own, key=_RANK)
    sure = [each.confidence for each in own if each.confidence is not None]
    surest = first._replace(confidence=max(sure, default=None))
    return _only(surest)._replace(confirmations=len(own))


def _only(one: Assertion) -> Fact:
    end = one.valid_until
    closed_by = None if end is None else one.seq
    return Fact(one.seq, one.value, one.valid_from, end, 1, one.confidence, closed_by)


def spans_of(living: Sequence[Assertion]) -> Spans:
    """Return when each live assertion holds by itself, by value and begin."""
    found: Spans = {}
    for span in sorted(_spans(living, _sorted_ends(living)), key=_rank):
        found.setdefault(span.value, []).append(span)
    return found


def supports(fact: Fact, spans: Spans) -> list[Assertion]:
    """Return the assertions that a fact rests on, by when they begin."""
    own = spans.get(fact.value, [])
    until = len(own)
    if fact.end is not None:
        until = bisect_left(own, fact.end, key=attrgetter("begin"))
    return [span.assertion for span in own[:until] if span.end > fact.begin]


def outdated(
    claim: Assertion, living: Sequence[Assertion], found: Sequence[Fact], at: datetime
) -> Outdated | None:
    """Return what became of a claim of a timeline that does not hold at an instant.

    None if its value holds, by whatever claim, or is yet to begin. `found` are the
    facts of those that are `living`.
    """
    own = [fact for fact in found if fact.value == claim.value and fact.begin <= at]
    if any(fact.holds(at) for fact in own):
        return None
    if claim not in living:
        return Outdated()
    if claim.valid_from > at:
        return None
    instead = next((fact for fact in found if fact.holds(at)), None)
    ends = {each.valid_until: each.seq for each in living if each.valid_until}
    if instead is not None:
        begun = [
            each.seq
            for each in living
            if (each.value, each.valid_from) == (instead.value, instead.begin)
        ]
        if begun:
            return Outdated(max(begun), begins=True, holds=max(begun))
        # It held before, and again since something else has ended.
        return Outdated(ends.get(instead.begin), holds=instead.seq)
    held = [fact for fact in own if fact.end and fact.end > claim.valid_from]
    if held and held[-1].end in ends:
        return Outdated(ends[held[-1].end])
    # Something else took its place, or did so at once, and is over as well.
    closed = held[-1].closed_by if held else claim.seq
    return Outdated(closed, begins=True)


def _rank(span: _Span) -> tuple[datetime, int]:
    return span.begin, span.seq


def _spans(living: Iterable[Assertion], ends: Ends) -> Iterator[_Span]:
    """Each with its own end, or the next that any assertion of its value tells."""
    for each in living:
        end = _end_of(each, ends) if ends else _NEVER
        yield _Span(each.valid_from, each.seq, end, each.value, each)


def _sorted_ends(living: Iterable[Assertion]) -> Ends:
    """Return the ends that any of them tells, by value."""
    ends: dict[bytes, set[datetime]] = {}
    for each in living:
        if each.valid_until is not None:
            ends.setdefault(each.value, set()).add(each.valid_until)
    return {value: sorted(each) for value, each in ends.items()}


def _end_of(claim: Assertion, ends: Ends) -> datetime:
    if claim.valid_until is not None:
        return claim.valid_until
    later = ends.get(claim.value)
    place = bisect_right(later, claim.valid_from) if later else 0
    return later[place] if later and place < len(later) else _NEVER


def _single(spans: Sequence[_Span]) -> Iterator[_Run]:
    """Runs of the value that began last, of spans in their order."""
    moments = sorted({s.begin for s in spans} | {s.end for s in spans} - {_NEVER})
    waiting: list[int] = []
    run: _Run | None = None
    began = 0
    for at in moments:
        while began < len(spans) and spans[began].begin <= at:
            heappush(waiting, -began)
            began += 1
        while waiting and spans[-waiting[0]].end <= at:
            heappop(waiting)
        top = spans[-waiting[0]] if waiting else None
        if run is not None and (top is None or top.value != run.value):
            yield run._replace(end=at)
            run = None
        if run is None and top is not None:
            run = _Run(top.value, at, _NEVER, top.seq)
    if run is not None:
        yield run


def _closing(living: Iterable[Assertion]) -> dict[tuple[bytes, datetime | None], int]:
    """By value and instant, the newest assertion that ends it then."""
    ends = sorted((a.seq, a.value, a.valid_until) for a in living if a.valid_until)
    return {(value, at): seq for seq, value, at in ends}


def _replacing(runs: Sequence[_Run]) -> dict[tuple[bytes, datetime | None], int]:
    """By value and instant, the assertion of another value that takes its place."""
    return {
        (one.value, one.end): other.carrier
        for one, other in pairwise(runs)
        if one.end == other.begin
    }


def _facts_of(runs: Iterable[_Run], spans: Sequence[_Span]) -> Iterator[Fact]:
    """The runs of one value as facts, of all spans of it."""
    begins = [span.begin for span in spans]
    ends = sorted(span.end for span in spans)
    surest: list[tuple[float, int]] = []
    first = began = 0
    for run in runs:
        while spans[first].end <= run.begin:
            first += 1
        while began < len(spans) and spans[began].begin < run.end:
            sure = spans[began].assertion.confidence
            if sure is not None:
                heappush(surest, (-sure, began))
            began += 1
        while surest and spans[surest[0][1]].end <= run.begin:
            heappop(surest)
        yield Fact(
            seq=spans[first].seq,
            value=run.value,
            begin=run.begin,
            end=None if run.end == _NEVER else run.end,
            confirmations=bisect_left(begins, run.end) - bisect_right(ends, run.begin),
            confidence=-surest[0][0] if surest else None,
        )
