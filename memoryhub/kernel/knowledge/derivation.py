"""Derivation of the facts of one timeline from its assertions. Pure.

A timeline is the assertions about one entity with one predicate. Nothing is updated in
place: new knowledge is a new assertion, and all facts are derived again. Intervals are
half-open, and an end of None means open. For n assertions it takes n log n steps.
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

#: Predicates with several values at once, unless an operator sets another cardinality.
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
#: Order in which a later claim replaces an earlier claim.
_RANK: Final = attrgetter("valid_from", "seq")
#: Sorted ends of claims, by value.
Ends = Mapping[bytes, Sequence[datetime]]


class TimelineAssertion(NamedTuple):
    """One assertion of a timeline: a value and its asserted valid time."""

    seq: int
    #: Equal for values that fold to the same.
    value: bytes
    valid_from: datetime
    valid_until: datetime | None = None
    confidence: float | None = None
    #: Whether the assertion or its predicate allows several values at once.
    many: bool = False
    #: Whether a model made the assertion, not an agent or an operator.
    by_model: bool = False
    retracted_seq: int | None = None
    #: Whether the assertion was retracted as wrong.
    wrong: bool = False


class CardinalitySetting(NamedTuple):
    """An operator's setting of a timeline's cardinality; None removes the setting."""

    seq: int
    cardinality: Cardinality | None


class Fact(NamedTuple):
    """A value of one predicate over the longest interval in which it holds."""

    #: Seq of the earliest assertion, which is the id of the fact.
    seq: int
    value: bytes
    begin: datetime
    end: datetime | None
    confirmations: int
    #: Greatest confidence of the supporting assertions.
    confidence: float | None
    #: Seq of the assertion that ended or replaced the fact.
    closed_by: int | None = None

    def is_valid_at(self, at: datetime) -> bool:
        """Return whether the fact holds at an instant of valid time."""
        return self.begin <= at and (self.end is None or at < self.end)


class Outdated(NamedTuple):
    """Why a claim no longer holds: the assertions that ended and replaced it.

    Seqs of assertions of the claim's timeline; both None if the claim was retracted.
    """

    #: Assertion whose end, or beginning if `begins`, is the end of the claim.
    since: int | None = None
    begins: bool = False
    #: Assertion of the value that holds now.
    holds: int | None = None


class AssertionSpan(NamedTuple):
    """An assertion, and its end when assertions of other values are disregarded."""

    claim: TimelineAssertion
    end: datetime


#: Spans by value, in the order of their begins.
Spans = dict[bytes, list[AssertionSpan]]


class _ValueRun(NamedTuple):
    value: bytes
    begin: datetime
    end: datetime
    #: Seq of the assertion that supports the run at its beginning.
    carrier: int


def list_live(
    assertions: Iterable[TimelineAssertion], *, known_at: int | None = None
) -> list[TimelineAssertion]:
    """List the assertions that count, as known at seq `known_at` of the home thread.

    Left out are retracted assertions, and assertions by a model of a value that was
    retracted as wrong, unless somebody else asserted it since. See decision 61.
    """
    standing, wrong = [], dict[bytes, int]()
    for each in assertions:
        if known_at is not None and each.seq > known_at:
            continue
        gone = each.retracted_seq
        if gone is None or (known_at is not None and gone > known_at):
            standing.append(each)
        elif each.wrong:
            wrong[each.value] = max(gone, wrong.get(each.value, 0))
    vouched = {
        each.value: each.seq
        for each in sorted(standing, key=lambda each: -each.seq)
        if not each.by_model and each.seq > wrong.get(each.value, each.seq)
    }
    return [
        each
        for each in standing
        if not each.by_model
        or each.value not in wrong
        or each.seq > vouched.get(each.value, each.seq)
    ]


def derive_cardinality(
    living: Iterable[TimelineAssertion],
    configured: Iterable[CardinalitySetting] = (),
    *,
    known_at: int | None = None,
) -> Cardinality:
    """Derive whether a timeline has one value at a time, from its live assertions.

    An operator's last setting takes precedence over assertions and the predicate.
    """
    words = [each for each in configured if known_at is None or each.seq <= known_at]
    if words and (last := max(words).cardinality):
        return last
    return "multi" if any(each.many for each in living) else "single"


def derive_facts(
    living: Sequence[TimelineAssertion], values: Cardinality
) -> list[Fact]:
    """Derive the facts of a timeline from its live assertions, sorted by begin.

    The order of arrival matters only for assertions that begin at the same instant.
    """
    if len(living) == 1:
        # Most timelines have one assertion, and a subject may have thousands.
        return [_build_single_fact(*living)]
    spans = build_spans(living)
    if values == "multi":
        runs = [run for each in spans.values() for run in _iter_runs(each)]
    else:
        ranked = sorted(chain(*spans.values()), key=lambda span: _RANK(span.claim))
        runs = [*_iter_runs(ranked)]
    by_value: dict[bytes, list[_ValueRun]] = {}
    for run in runs:
        by_value.setdefault(run.value, []).append(run)
    closing = _map_closing(living)
    if values == "single":
        closing = _map_replacing(runs) | closing
    found = [
        fact._replace(closed_by=closing.get((fact.value, fact.end)))
        for value, each in spans.items()
        for fact in _iter_facts(by_value.get(value, ()), each)
    ]
    return sorted(found, key=lambda fact: (fact.begin, fact.seq))


def iter_holding(
    living: Sequence[TimelineAssertion], values: Cardinality, at: datetime
) -> Iterator[tuple[Fact, Sequence[TimelineAssertion]]]:
    """Yield the facts that hold at an instant, each with its supporting assertions.

    The same facts as those of `derive_facts` that hold then, at the cost of sorting the
    assertions, however many values succeeded each other.
    """
    if values == "single" and len({each.value for each in living}) > 1:
        found = _find_holding_run(living, at)
        if found is not None:
            run, closed_by = found
            own = [each for each in living if each.value == run.value]
            closing = _map_closing(own).get((run.value, run.end), closed_by)
            yield from _iter_supported([run], own, {run.end: closing})
        return
    by_value: dict[bytes, list[TimelineAssertion]] = {}
    for each in living:
        by_value.setdefault(each.value, []).append(each)
    for own in by_value.values():
        if len(own) == 1 or not any(each.valid_until for each in own):
            claims = sorted(own, key=_RANK)
            fact = _build_single_fact(claims[0])
            if len(claims) > 1:
                sure = [each.confidence for each in own if each.confidence is not None]
                fact = fact._replace(
                    confirmations=len(own), confidence=max(sure, default=None)
                )
            if fact.is_valid_at(at):
                yield fact, claims
            continue
        runs = [*_iter_runs(build_spans(own)[own[0].value])]
        held = [run for run in runs if run.begin <= at < run.end]
        closed = {end: seq for (_, end), seq in _map_closing(own).items()}
        yield from _iter_supported(held, own, closed)


def _iter_supported(
    runs: Sequence[_ValueRun],
    own: Sequence[TimelineAssertion],
    closing: Mapping[datetime | None, int | None],
) -> Iterator[tuple[Fact, Sequence[TimelineAssertion]]]:
    """Yield runs of one value as facts, each with its supporting assertions."""
    spans = build_spans(own)
    (sorted_own,) = spans.values()
    for each in _iter_facts(runs, sorted_own):
        fact = each._replace(closed_by=closing.get(each.end))
        yield fact, list_supports(fact, spans)


def _find_holding_run(
    living: Sequence[TimelineAssertion], at: datetime
) -> tuple[_ValueRun, int | None] | None:
    """Find the run that holds at an instant, and the seq of its replacement.

    For timelines with one value at a time. If another value begins at `since`, before
    the run, only spans matter that end after `since`, from the last endless span on.
    """
    ends = _build_ends(living)
    claims = sorted(living, key=_RANK)
    begun = claims[: bisect_right(claims, at, key=_BEGIN)]
    holding = next(
        (each for each in reversed(begun) if at < _find_end(each, ends)), None
    )
    if holding is None:
        return None
    value = holding.value
    # The last of several claims that begin at one instant counts.
    tops = (next(each) for _, each in groupby(reversed(begun), key=_BEGIN))
    since = next((each.valid_from for each in tops if each.value != value), None)
    if since is not None:
        past = reversed(range(bisect_right(begun, since, key=_BEGIN)))
        first = next((n for n in past if _find_end(begun[n], ends) == _NEVER), 0)
        claims = [each for each in claims[first:] if _find_end(each, ends) > since]
    spans = [AssertionSpan(each, _find_end(each, ends)) for each in claims]
    runs = [*_iter_runs(spans)]
    run = next(each for each in runs if each.begin <= at < each.end)
    return run, _map_replacing(runs).get((value, run.end))


def _build_single_fact(one: TimelineAssertion) -> Fact:
    end = one.valid_until
    closed_by = None if end is None else one.seq
    return Fact(one.seq, one.value, one.valid_from, end, 1, one.confidence, closed_by)


def build_spans(living: Sequence[TimelineAssertion]) -> Spans:
    """Build the span of each live assertion, by value and sorted by begin."""
    found: Spans = {}
    ends = _build_ends(living)
    for each in sorted(living, key=_RANK):
        span = AssertionSpan(each, _find_end(each, ends))
        found.setdefault(each.value, []).append(span)
    return found


def list_supports(fact: Fact, spans: Spans) -> list[TimelineAssertion]:
    """List the assertions that support a fact, sorted by begin."""
    own = spans.get(fact.value, [])
    until = len(own)
    if fact.end is not None:
        until = bisect_left(own, fact.end, key=attrgetter("claim.valid_from"))
    return [each for each, end in own[:until] if end > fact.begin]


def explain_outdated(
    claim: TimelineAssertion,
    living: Sequence[TimelineAssertion],
    found: Sequence[Fact],
    at: datetime,
) -> Outdated | None:
    """Explain why a claim of a timeline does not hold at an instant.

    None if the claim's value holds, by any claim, or has not begun yet. `found` are the
    facts derived from the `living` assertions.
    """
    own = [fact for fact in found if fact.value == claim.value and fact.begin <= at]
    if any(fact.is_valid_at(at) for fact in own):
        return None
    if claim not in living:
        return Outdated()
    if claim.valid_from > at:
        return None
    instead = next((fact for fact in found if fact.is_valid_at(at)), None)
    ends = {each.valid_until: each.seq for each in living if each.valid_until}
    if instead is not None:
        begun = [
            each.seq
            for each in living
            if (each.value, each.valid_from) == (instead.value, instead.begin)
        ]
        if begun:
            return Outdated(max(begun), begins=True, holds=max(begun))
        # The other value held before, and again since something else has ended.
        return Outdated(ends.get(instead.begin), holds=instead.seq)
    held = [fact for fact in own if fact.end and fact.end > claim.valid_from]
    if held and held[-1].end in ends:
        return Outdated(ends[held[-1].end])
    # Another value replaced the claim, perhaps at once, and has ended as well.
    closed = held[-1].closed_by if held else claim.seq
    return Outdated(closed, begins=True)


def _build_ends(living: Iterable[TimelineAssertion]) -> Ends:
    """Build the sorted ends that assertions state, by value."""
    ends: dict[bytes, set[datetime]] = {}
    for each in living:
        if each.valid_until is not None:
            ends.setdefault(each.value, set()).add(each.valid_until)
    return {value: sorted(each) for value, each in ends.items()}


def _find_end(claim: TimelineAssertion, ends: Ends) -> datetime:
    """Find the assertion's own end, else the next end asserted for its value."""
    if claim.valid_until is not None:
        return claim.valid_until
    later = ends.get(claim.value)
    place = bisect_right(later, claim.valid_from) if later else 0
    return later[place] if later and place < len(later) else _NEVER


def _iter_runs(spans: Sequence[AssertionSpan]) -> Iterator[_ValueRun]:
    """Yield runs of the value that began last, from sorted spans."""
    begins = {each.valid_from for each, _ in spans}
    moments = sorted(begins | {end for _, end in spans} - {_NEVER})
    waiting: list[int] = []
    run: _ValueRun | None = None
    began = 0
    for at in moments:
        while began < len(spans) and spans[began].claim.valid_from <= at:
            heappush(waiting, -began)
            began += 1
        while waiting and spans[-waiting[0]].end <= at:
            heappop(waiting)
        top = spans[-waiting[0]].claim if waiting else None
        if run is not None and (top is None or top.value != run.value):
            yield run._replace(end=at)
            run = None
        if run is None and top is not None:
            run = _ValueRun(top.value, at, _NEVER, top.seq)
    if run is not None:
        yield run


def _map_closing(
    living: Iterable[TimelineAssertion],
) -> dict[tuple[bytes, datetime | None], int]:
    """Map (value, end) to the newest assertion that ends the value then."""
    ends = sorted((a.seq, a.value, a.valid_until) for a in living if a.valid_until)
    return {(value, at): seq for seq, value, at in ends}


def _map_replacing(
    runs: Sequence[_ValueRun],
) -> dict[tuple[bytes, datetime | None], int]:
    """Map (value, end) to the assertion of another value that replaces it then."""
    return {
        (one.value, one.end): other.carrier
        for one, other in pairwise(runs)
        if one.end == other.begin
    }


def _iter_facts(
    runs: Iterable[_ValueRun], spans: Sequence[AssertionSpan]
) -> Iterator[Fact]:
    """Yield the runs of one value as facts, from all spans of the value."""
    begins = [each.valid_from for each, _ in spans]
    ends = sorted(end for _, end in spans)
    surest: list[tuple[float, int]] = []
    first = began = 0
    for run in runs:
        while spans[first].end <= run.begin:
            first += 1
        while began < len(spans) and begins[began] < run.end:
            sure = spans[began].claim.confidence
            if sure is not None:
                heappush(surest, (-sure, began))
            began += 1
        while surest and spans[surest[0][1]].end <= run.begin:
            heappop(surest)
        yield Fact(
            seq=spans[first].claim.seq,
            value=run.value,
            begin=run.begin,
            end=None if run.end == _NEVER else run.end,
            confirmations=bisect_left(begins, run.end) - bisect_right(ends, run.begin),
            confidence=-surest[0][0] if surest else None,
        )
