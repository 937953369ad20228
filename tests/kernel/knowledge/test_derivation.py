"""Facts derived from assertions, against the rule evaluated instant by instant."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from memoryhub.kernel.knowledge.derivation import (
    CardinalitySetting,
    Fact,
    TimelineAssertion,
    build_spans,
    derive_cardinality,
    derive_facts,
    explain_outdated,
    iter_holding,
    list_live,
    list_supports,
)
from memoryhub.kernel.state.knowledge import Cardinality

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def to_day(n: int) -> datetime:
    return START + n * DAY


def claim(
    seq: int, value: str, begin: int, end: int | None = None, **more: object
) -> TimelineAssertion:
    until = None if end is None else to_day(end)
    return TimelineAssertion(seq, value.encode(), to_day(begin), until, **more)  # type: ignore[arg-type]


def to_spans(found: Sequence[Fact]) -> list[tuple[str, int, int | None]]:
    """Return each fact as (value, first day, day of its end)."""
    return [
        (
            fact.value.decode(),
            (fact.begin - START).days,
            None if fact.end is None else (fact.end - START).days,
        )
        for fact in found
    ]


def list_values_at(
    living: Sequence[TimelineAssertion], of: Cardinality, instant: datetime
) -> set[bytes]:
    """Return the values that hold at an instant, by the words of the rule."""

    def end(one: TimelineAssertion) -> datetime:
        if one.valid_until is not None:
            return one.valid_until
        later = [
            other.valid_until
            for other in living
            if other.value == one.value
            and other.valid_until is not None
            and other.valid_until > one.valid_from
        ]
        return min(later, default=datetime.max.replace(tzinfo=UTC))

    holding = [a for a in living if a.valid_from <= instant < end(a)]
    if of == "single":
        holding = sorted(holding, key=lambda a: (a.valid_from, a.seq))[-1:]
    return {each.value for each in holding}


def sample(chance: random.Random) -> list[TimelineAssertion]:
    found = []
    for seq in range(1, chance.randint(1, 9)):
        begin = chance.randint(0, 12)
        until = begin + chance.randint(1, 6) if chance.random() < 0.35 else None
        sure = chance.choice([None, 0.2, 0.5, 0.9])
        made = claim(
            seq,
            chance.choice("ABC"),
            begin,
            until,
            confidence=sure,
            by_model=chance.random() < 0.5,
            retracted_seq=seq + 100 if chance.random() < 0.2 else None,
            wrong=chance.random() < 0.5,
        )
        found.append(made)
    return found


def check(chance: random.Random) -> None:
    of: Cardinality = chance.choice(["single", "multi"])
    living = list_live(sample(chance))
    found = derive_facts(living, of)
    resting_on = build_spans(living)
    for half in range(-1, 50):
        instant = to_day(0) + half * DAY / 2
        holding = [fact for fact in found if fact.is_valid_at(instant)]
        told = [(fact, list_supports(fact, resting_on)) for fact in holding]
        assert sorted(iter_holding(living, of, instant)) == sorted(told)
        assert {fact.value for fact in holding} == list_values_at(living, of, instant)
        assert len(holding) == len({fact.value for fact in holding})
    for fact in found:
        resting = list_supports(fact, build_spans(living))
        sure = [each.confidence for each in resting if each.confidence is not None]
        assert fact.seq == resting[0].seq
        assert fact.confirmations == len(resting)
        assert fact.confidence == max(sure, default=None)
        assert (fact.closed_by is None) == (fact.end is None)
    pairs = [(one.value, one.end) for one in found]
    assert not any((fact.value, fact.begin) in pairs for fact in found), "maximal"
    marks_follow_the_rule(living, of, found)
    # Any order of arrival, ties left out.
    untied = [*{each.valid_from: each for each in living}.values()]
    seqs = chance.sample(range(1, 100), len(untied))
    again = [a._replace(seq=seq) for a, seq in zip(untied, seqs, strict=True)]
    assert to_spans(derive_facts(untied, of)) == to_spans(derive_facts(again, of))


def marks_follow_the_rule(
    living: Sequence[TimelineAssertion], of: Cardinality, found: Sequence[Fact]
) -> None:
    """Assert that outdated claims are those that do not hold, naming the new value."""
    by_seq = {each.seq: each for each in living}
    for half in range(-1, 30, 6):
        instant = to_day(0) + half * DAY / 2
        holding = list_values_at(living, of, instant)
        for each in living:
            gone = explain_outdated(each, living, found, instant)
            still = each.value in holding or each.valid_from > instant
            assert (gone is None) == still
            if gone is None:
                continue
            assert gone.since is not None
            told = by_seq[gone.since]
            since = told.valid_from if gone.begins else told.valid_until
            assert since is not None
            assert each.valid_from <= since <= instant or gone.holds is not None
            now = {by_seq[gone.holds].value} if gone.holds else set()
            assert now == (holding if of == "single" else now & holding)


@pytest.mark.parametrize(
    ("seed", "sets"),
    [
        (1, 500),
        pytest.param(2, 20_000, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
    ],
)
def test_timeline_equals_rule(seed: int, sets: int) -> None:
    chance = random.Random(seed)
    for _ in range(sets):
        check(chance)


def test_known_at_tells_what_was_believed() -> None:
    given = [
        claim(1, "Oslo", 0),
        claim(2, "Bergen", 31, 90),
        claim(3, "Rome", 5, retracted_seq=4, wrong=True),
    ]
    believed = {
        n: to_spans(derive_facts(list_live(given, known_at=n), "single"))
        for n in range(5)
    }
    assert believed[0] == []
    assert believed[1] == [("Oslo", 0, None)]
    assert believed[2] == [("Oslo", 0, 31), ("Bergen", 31, 90), ("Oslo", 90, None)]
    assert ("Rome", 5, 31) in believed[3]
    assert believed[4] == believed[2]


def test_late_fact_splits_the_fact_it_overlaps() -> None:
    given = [claim(1, "A", 1), claim(2, "C", 5, 8)]
    found = derive_facts(given, "single")
    assert to_spans(found) == [("A", 1, 5), ("C", 5, 8), ("A", 8, None)]
    assert [fact.closed_by for fact in found] == [2, 2, None]


def test_closed_past_fact_leaves_the_present_value() -> None:
    """Tokyo is known first, and Paris is from before."""
    given = [claim(1, "Tokyo", 30), claim(2, "Paris", 0)]
    assert to_spans(derive_facts(given, "single")) == [
        ("Paris", 0, 30),
        ("Tokyo", 30, None),
    ]
    given = [claim(1, "Tokyo", 30), claim(2, "Paris", 0, 9)]
    assert to_spans(derive_facts(given, "single")) == [
        ("Paris", 0, 9),
        ("Tokyo", 30, None),
    ]


def test_values_of_one_exchange_live_together() -> None:
    given = [claim(1, "tea", 3, many=True), claim(2, "coffee", 3, many=True)]
    assert derive_cardinality(given) == "multi"
    found = derive_facts(given, derive_cardinality(given))
    assert to_spans(found) == [("tea", 3, None), ("coffee", 3, None)]
    # One that says so is enough, and an operator has the last word.
    assert derive_cardinality([given[0], claim(2, "coffee", 3)]) == "multi"
    single = CardinalitySetting(3, "single")
    assert derive_cardinality(given, [single]) == "single"
    assert derive_cardinality(given, [single], known_at=2) == "multi"
    assert derive_cardinality(given, [single, CardinalitySetting(4, None)]) == "multi"


def test_fifty_assertions_make_one_fact() -> None:
    given = [claim(n, "Oslo", n, confidence=n / 100) for n in range(1, 51)]
    (fact,) = derive_facts(given, "single")
    assert (fact.seq, fact.confirmations, fact.confidence) == (1, 50, 0.5)


def test_explicit_end_of_a_fact_holds() -> None:
    given = [claim(1, "Oslo", 0), claim(2, "Oslo", 0, 10), claim(3, "Oslo", 4)]
    (fact,) = derive_facts(given, "single")
    assert to_spans([fact]) == [("Oslo", 0, 10)]
    assert fact.closed_by == 2
    assert to_spans(derive_facts(given, "multi")) == [("Oslo", 0, 10)]
    # A fact that begins after the end is not ended.
    assert to_spans(derive_facts([*given, claim(4, "Oslo", 12)], "single"))[1:] == [
        ("Oslo", 12, None)
    ]


def test_retraction_restores_the_earlier_value() -> None:
    given = [claim(1, "A", 1), claim(2, "C", 5, 8)]
    before = derive_facts(list_live(given[:1]), "single")
    after = derive_facts(
        list_live([given[0], given[1]._replace(retracted_seq=3)]), "single"
    )
    assert after == before


def test_retracted_fact_stays_away_when_asserted_again() -> None:
    wrong = claim(1, "window", 0, retracted_seq=2, wrong=True)
    model = claim(3, "window", 1, by_model=True)
    assert list_live([wrong, model]) == []
    # Withdrawn is not wrong, and a person may say it again.
    assert list_live([wrong._replace(wrong=False), model]) == [model]
    person = claim(4, "window", 2)
    assert list_live([wrong, model, person]) == [person]
    # What a model says after a person said it again counts.
    later = model._replace(seq=person.seq + 1)
    assert list_live([wrong, model, person, later]) == [person, later]
    # Before the retraction both counted.
    assert len(list_live([wrong, model._replace(seq=2)], known_at=1)) == 1


def test_long_timelines_take_n_log_n() -> None:
    """Ten thousand values alternate, and each depends on all before it."""
    given = [claim(n, "AB"[n % 2], n) for n in range(1, 10_001)]
    found = derive_facts(given, "single")
    assert len(found) == 10_000
    assert found[-1].confirmations == 5_000
