"""Timelines of a subject, derived from the rows of its assertions. Never writes.

Opens no content: facts are derived from columns of the rows alone.
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

from memoryhub.journal.rows.knowledge import assertion_rows, assertion_statements
from memoryhub.journal.rows.knowledge.assertion_statements import TIMELINE_COLUMNS
from memoryhub.kernel.knowledge import derivation
from memoryhub.kernel.knowledge.derivation import (
    CardinalitySetting,
    Fact,
    Outdated,
    Spans,
    TimelineAssertion,
)
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.models.assertions import Assertion as Row
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys
from memoryhub.vault.registry.lru import Lru

#: Timelines read in one statement.
AT_ONCE = 50
#: Assertions from which on an answer is cached, and of all cached answers: some 12 MB.
_LONG, _KEPT = 1_000, 50_000
#: Cached answers, by home thread, its head, whether its predicates are to be folded
#: anew, and the assertions that were asked for.
_answers: Lru[tuple[UUID, int, bool | None, tuple[int, ...]], list[Timeline]] = Lru(
    _KEPT, name="assertions of long facts"
)
#: Rows fetched at once when all of a subject's rows are read.
CHUNK = 2_000


@dataclass(frozen=True)
class Timeline:
    """Assertions of one predicate about one entity, and the facts that follow.

    As known at an event of the home thread, or as known now.
    """

    digest: bytes
    #: All assertions, oldest first, retracted assertions included.
    assertions: tuple[TimelineAssertion, ...]
    configured: tuple[CardinalitySetting, ...]
    known_at: int | None = None

    def as_of(self, known_at: int | None) -> Timeline:
        """Return the timeline as known at an event of the home thread."""
        return Timeline(self.digest, self.assertions, self.configured, known_at)

    @property
    def recorded(self) -> tuple[TimelineAssertion, ...]:
        """All assertions that had been made by `known_at`."""
        if self.known_at is None:
            return self.assertions
        return tuple(each for each in self.assertions if each.seq <= self.known_at)

    @cached_property
    def living(self) -> list[TimelineAssertion]:
        return derivation.list_live(self.assertions, known_at=self.known_at)

    @cached_property
    def cardinality(self) -> Cardinality:
        return derivation.derive_cardinality(
            self.living, self.configured, known_at=self.known_at
        )

    @cached_property
    def facts(self) -> list[Fact]:
        return derivation.derive_facts(self.living, self.cardinality)

    def iter_holding(
        self, at: datetime
    ) -> Iterator[tuple[Fact, Sequence[TimelineAssertion]]]:
        """Yield the facts that hold at an instant, each with its assertions."""
        return derivation.iter_holding(self.living, self.cardinality, at)

    def retract_assertions(self, seqs: Collection[int], *, wrong: bool) -> Timeline:
        """Return the timeline as if these assertions were retracted."""
        gone = self.next_seq
        after = tuple(
            each._replace(retracted_seq=gone, wrong=wrong) if each.seq in seqs else each
            for each in self.assertions
        )
        return Timeline(self.digest, after, self.configured)

    def end_fact(self, fact: Fact, at: datetime) -> Timeline:
        """Return the timeline as if a fact ended at an instant."""
        end = TimelineAssertion(self.next_seq, fact.value, fact.begin, at)
        return Timeline(self.digest, (*self.assertions, end), self.configured)

    def set_cardinality(self, cardinality: Cardinality | None) -> Timeline:
        """Return the timeline as if its cardinality were configured."""
        word = CardinalitySetting(self.next_seq, cardinality)
        return Timeline(self.digest, self.assertions, (*self.configured, word))

    @property
    def next_seq(self) -> int:
        """A seq greater than all seqs of the timeline."""
        claims = [max(each.seq, each.retracted_seq or 0) for each in self.assertions]
        return 1 + max([*claims, *(each.seq for each in self.configured)], default=0)

    def list_supports(self, fact: Fact) -> list[TimelineAssertion]:
        return derivation.list_supports(fact, self._spans)

    def find_beginning(self, fact: Fact) -> int:
        """Return the seq of the assertion by which a fact begins when it does.

        The first of its value that begins then, else the fact's own. They differ where
        a value held, was replaced and was asserted again.
        """
        return self._begins.get((fact.value, fact.begin), fact.seq)

    @cached_property
    def _begins(self) -> dict[tuple[bytes, datetime], int]:
        newest_first = sorted(self.living, key=lambda each: -each.seq)
        return {(each.value, each.valid_from): each.seq for each in newest_first}

    @cached_property
    def _spans(self) -> Spans:
        return derivation.build_spans(self.living)

    def find_assertion(self, seq: int) -> TimelineAssertion | None:
        """Return an assertion by its seq; None if made after `known_at`, or unknown."""
        return next((each for each in self.recorded if each.seq == seq), None)

    def find_outdated(self, claim: TimelineAssertion, at: datetime) -> Outdated | None:
        return derivation.explain_outdated(claim, self.living, self.facts, at)


def find_seq_at(home: Thread, known_at: datetime | None) -> int | None:
    """Find the seq of the home thread's last event by an instant; None means now."""
    if known_at is None:
        return None
    events = Event.objects.filter(thread=home, at__lte=known_at).order_by("-seq")
    return events.values_list("seq", flat=True).first() or 0


def select_rows(
    home: Thread, *, entity: str | None = None, predicate: str | None = None
) -> QuerySet[Row]:
    """Select assertion rows of a home thread, of an entity, a predicate or both."""
    rows = Row.objects.filter(thread=home)
    if entity is None and predicate is None:
        return rows
    opened = keys.get_subject_keys(home.subject_id, epoch=home.subject.epoch)
    if entity is not None and predicate is not None:
        digest = assertion_rows.digest_timeline(opened, entity, predicate)
        return rows.filter(timeline=digest)
    if entity is not None:
        return rows.filter(entity=assertion_rows.digest_word(opened, "entity", entity))
    assert predicate is not None
    digest = assertion_rows.digest_word(opened, "predicate", predicate)
    return rows.filter(predicate=digest)


def iter_timelines(
    rows: QuerySet[Row], *, since: bytes = b"", known_at: int | None = None
) -> Iterator[Timeline]:
    """Yield timelines in the order of their digests, from `since` on.

    Two queries for AT_ONCE timelines.
    """
    digests = rows.filter(timeline__gte=since).order_by("timeline")
    while True:
        batch = [*digests.values_list("timeline", flat=True).distinct()[:AT_ONCE]]
        yield from _iter_by_timeline(
            _select_values(rows.filter(timeline__in=batch)), known_at
        )
        if len(batch) < AT_ONCE:
            return
        digests = rows.filter(timeline__gt=batch[-1]).order_by("timeline")


def map_timelines(
    home: Thread, seqs: Collection[int], *, known_at: int | None = None
) -> dict[int, Timeline]:
    """Return the timelines of assertions, by the assertions' seqs. One query."""
    wanted = {*seqs}
    return {
        each.seq: timeline
        for timeline in list_timelines(home, wanted, known_at=known_at)
        for each in timeline.assertions
        if each.seq in wanted
    }


def list_timelines(
    home: Thread, seqs: Collection[int], *, known_at: int | None = None
) -> list[Timeline]:
    """List the distinct timelines of these assertions.

    One query; none where a long answer is cached and `home` has no event since.
    """
    key = (home.id, home.head_seq, home.predicates_due, (*seqs,))
    found = _answers.get(key)
    if found is None:
        rows = assertion_statements.select_timelines(home.id, seqs) if seqs else []
        found = [*_iter_by_timeline(rows, None)]
        weight = sum(len(each.assertions) for each in found)
        if weight >= _LONG:
            _answers.put(key, found, weight=weight)
    # Copy: facts derived on a copy do not stay in the cache.
    return [each.as_of(known_at) for each in found]


def iter_all_timelines(home: Thread) -> Iterator[Timeline]:
    """Yield all timelines of a home thread as known now. One query."""
    rows = _select_values(select_rows(home)).iterator(chunk_size=CHUNK)
    yield from _iter_by_timeline(rows, None)


def find_timeline(
    home: Thread, seq: int, *, known_at: int | None = None
) -> Timeline | None:
    """Return the timeline of an assertion; None without one. Two queries."""
    rows = Row.objects.filter(thread=home)
    of = rows.filter(seq=seq, cardinality=None).values_list("timeline", flat=True)
    digest = of.first()
    if digest is None:
        return None
    found = _select_values(rows.filter(timeline=digest))
    return next(_iter_by_timeline(found, known_at))


def _select_values(rows: QuerySet[Row]) -> QuerySet[Row, tuple[Any, ...]]:
    found: QuerySet[Row, tuple[Any, ...]] = rows.values_list(*TIMELINE_COLUMNS)
    return found.order_by("timeline", "seq")


def _iter_by_timeline(
    rows: Iterable[tuple[Any, ...]], known_at: int | None
) -> Iterator[Timeline]:
    """Group rows, sorted by timeline and seq, into timelines."""
    for digest, of in groupby(rows, key=itemgetter(0)):
        found = [*of]
        claims = [_build_assertion(row) for row in found if row[1] is None]
        words = [
            CardinalitySetting(r[2], r[1] or None) for r in found if r[1] is not None
        ]
        yield Timeline(bytes(digest), tuple(claims), tuple(words), known_at)


def _build_assertion(row: tuple[Any, ...]) -> TimelineAssertion:
    _, _, seq, value, sure, many, origin, retracted, wrong, begin, end = row
    if isinstance(begin, str):
        begin, end = datetime.fromisoformat(begin), end and datetime.fromisoformat(end)
    if not isinstance(value, bytes):
        value = bytes(value)
    by_model, many, wrong = origin == "model", many == 1, wrong == 1
    claim = (seq, value, begin, end, sure, many, by_model, retracted, wrong)
    # Bypass the class's own __new__: a timeline may have thousands of assertions.
    return tuple.__new__(TimelineAssertion, claim)
