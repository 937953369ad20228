"""Timelines of a subject: the rows of its assertions, derived. Never writes.

Opens nothing: what the rows say is enough to derive by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from memoryhub.journal.rows import statements
from memoryhub.journal.rows.knowledge import assertion_rows
from memoryhub.journal.rows.statements import TIMELINE_COLUMNS
from memoryhub.kernel.knowledge import derivation
from memoryhub.kernel.knowledge.derivation import (
    Assertion,
    Configured,
    Fact,
    Outdated,
    Spans,
)
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.models.assertions import Assertion as Row
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys
from memoryhub.vault.registry.lru import Lru

#: Timelines read in one statement.
AT_ONCE = 50
#: Assertions of an answer from which on it is kept, and of all that are: some 12 MB.
_LONG, _KEPT = 1_000, 50_000
#: By home thread, its head, and the assertions that were asked for.
_answers: Lru[tuple[UUID, int, tuple[int, ...]], list[Timeline]] = Lru(
    _KEPT, name="assertions of long facts"
)
#: Rows fetched at once where all of a subject's are looked at.
CHUNK = 2_000


@dataclass(frozen=True)
class Timeline:
    """What is asserted of one entity by one predicate, and the facts that follow.

    As it was known at an event of the home thread, or as it is known now.
    """

    digest: bytes
    #: Retracted ones too, oldest first, but for those that came later.
    assertions: tuple[Assertion, ...]
    configured: tuple[Configured, ...]
    known_at: int | None = None

    def as_of(self, known_at: int | None) -> Timeline:
        """Return it as it was known then."""
        return Timeline(self.digest, self.assertions, self.configured, known_at)

    @property
    def recorded(self) -> tuple[Assertion, ...]:
        """All assertions that had been made by then."""
        if self.known_at is None:
            return self.assertions
        return tuple(each for each in self.assertions if each.seq <= self.known_at)

    @cached_property
    def living(self) -> list[Assertion]:
        return derivation.live(self.assertions, known_at=self.known_at)

    @cached_property
    def cardinality(self) -> Cardinality:
        return derivation.cardinality(
            self.living, self.configured, known_at=self.known_at
        )

    @cached_property
    def facts(self) -> list[Fact]:
        return derivation.facts(self.living, self.cardinality)

    def iter_holding(self, at: datetime) -> Iterator[tuple[Fact, Sequence[Assertion]]]:
        """Yield the facts that hold at an instant, each with what it rests on."""
        return derivation.iter_holding(self.living, self.cardinality, at)

    def retracting(self, seqs: Collection[int], *, wrong: bool) -> Timeline:
        """Return it as it would be without these assertions."""
        gone = self.next_seq
        after = tuple(
            each._replace(retracted_seq=gone, wrong=wrong) if each.seq in seqs else each
            for each in self.assertions
        )
        return Timeline(self.digest, after, self.configured)

    def ending(self, fact: Fact, at: datetime) -> Timeline:
        """Return it as it would be with an end to a fact."""
        end = Assertion(self.next_seq, fact.value, fact.begin, at)
        return Timeline(self.digest, (*self.assertions, end), self.configured)

    def configuring(self, cardinality: Cardinality | None) -> Timeline:
        """Return it as it would be with that many values at a time."""
        word = Configured(self.next_seq, cardinality)
        return Timeline(self.digest, self.assertions, (*self.configured, word))

    @property
    def next_seq(self) -> int:
        """A number behind all of its events."""
        claims = [max(each.seq, each.retracted_seq or 0) for each in self.assertions]
        return 1 + max([*claims, *(each.seq for each in self.configured)], default=0)

    def supports(self, fact: Fact) -> list[Assertion]:
        return derivation.supports(fact, self._spans)

    @cached_property
    def _spans(self) -> Spans:
        return derivation.spans_of(self.living)

    def claim(self, seq: int) -> Assertion | None:
        """Return an assertion by its seq, if it had been made by then."""
        return next((each for each in self.recorded if each.seq == seq), None)

    def outdated(self, claim: Assertion, at: datetime) -> Outdated | None:
        return derivation.outdated(claim, self.living, self.facts, at)


def seq_at(home: Thread, known_at: datetime | None) -> int | None:
    """Return the home thread's last event until an instant; None stands for now."""
    if known_at is None:
        return None
    events = Event.objects.filter(thread=home, at__lte=known_at).order_by("-seq")
    return events.values_list("seq", flat=True).first() or 0


def rows_of(
    home: Thread, *, entity: str | None = None, predicate: str | None = None
) -> QuerySet[Row]:
    """Return the rows of a home thread, of an entity, a predicate or both."""
    rows = Row.objects.filter(thread=home)
    if entity is None and predicate is None:
        return rows
    opened = keys.subject_keys(home.subject_id, epoch=home.subject.epoch)
    if entity is not None and predicate is not None:
        digest = assertion_rows.timeline(opened, entity, predicate)
        return rows.filter(timeline=digest)
    if entity is not None:
        return rows.filter(entity=assertion_rows.word(opened, "entity", entity))
    assert predicate is not None
    digest = assertion_rows.word(opened, "predicate", predicate)
    return rows.filter(predicate=digest)


def iter_timelines(
    rows: QuerySet[Row], *, since: bytes = b"", known_at: int | None = None
) -> Iterator[Timeline]:
    """Yield timelines in the order of their digests, from `since` on.

    Two queries for AT_ONCE of them.
    """
    digests = rows.filter(timeline__gte=since).order_by("timeline")
    while True:
        batch = [*digests.values_list("timeline", flat=True).distinct()[:AT_ONCE]]
        yield from _by_timeline(_values(rows.filter(timeline__in=batch)), known_at)
        if len(batch) < AT_ONCE:
            return
        digests = rows.filter(timeline__gt=batch[-1]).order_by("timeline")


def timelines_of(
    home: Thread, seqs: Collection[int], *, known_at: int | None = None
) -> dict[int, Timeline]:
    """Return the timelines of assertions, by their seqs. One query."""
    wanted = {*seqs}
    return {
        each.seq: timeline
        for timeline in list_timelines_of(home, wanted, known_at=known_at)
        for each in timeline.assertions
        if each.seq in wanted
    }


def list_timelines_of(
    home: Thread, seqs: Collection[int], *, known_at: int | None = None
) -> list[Timeline]:
    """Return the timelines that assertions are of, each once.

    One query; none where they are long and no event of `home` came since it was asked.
    """
    key = (home.id, home.head_seq, (*seqs,))
    found = _answers.get(key)
    if found is None:
        rows = statements.select_timelines(home.id, seqs) if seqs else []
        found = [*_by_timeline(rows, None)]
        weight = sum(len(each.assertions) for each in found)
        if weight >= _LONG:
            _answers.put(key, found, weight=weight)
    # What is derived of them is not kept.
    return [each.as_of(known_at) for each in found]


def iter_all(home: Thread) -> Iterator[Timeline]:
    """Yield all timelines of a home thread as they are known now. One query."""
    rows = _values(rows_of(home)).iterator(chunk_size=CHUNK)
    yield from _by_timeline(rows, None)


def find_timeline(
    home: Thread, seq: int, *, known_at: int | None = None
) -> Timeline | None:
    """Return the timeline of an assertion. Two queries."""
    rows = Row.objects.filter(thread=home)
    of = rows.filter(seq=seq, cardinality=None).values_list("timeline", flat=True)
    digest = of.first()
    if digest is None:
        return None
    found = _values(rows.filter(timeline=digest))
    return next(_by_timeline(found, known_at))


def _values(rows: QuerySet[Row]) -> QuerySet[Row, tuple[Any, ...]]:
    found: QuerySet[Row, tuple[Any, ...]] = rows.values_list(*TIMELINE_COLUMNS)
    return found.order_by("timeline", "seq")


def _by_timeline(
    rows: Iterable[tuple[Any, ...]], known_at: int | None
) -> Iterator[Timeline]:
    """Yield the timelines of rows that are in their order."""
    for digest, of in groupby(rows, key=itemgetter(0)):
        found = [*of]
        claims = [_build_assertion(row) for row in found if row[1] is None]
        words = [Configured(r[2], r[1] or None) for r in found if r[1] is not None]
        yield Timeline(bytes(digest), tuple(claims), tuple(words), known_at)


def _build_assertion(row: tuple[Any, ...]) -> Assertion:
    _, _, seq, value, sure, many, origin, retracted, wrong, begin, end = row
    if isinstance(begin, str):
        begin, end = datetime.fromisoformat(begin), end and datetime.fromisoformat(end)
    if not isinstance(value, bytes):
        value = bytes(value)
    by_model, many, wrong = origin == "model", many == 1, wrong == 1
    claim = (seq, value, begin, end, sure, many, by_model, retracted, wrong)
    # Without a call of the class's own: a timeline may have thousands.
    return tuple.__new__(Assertion, claim)
