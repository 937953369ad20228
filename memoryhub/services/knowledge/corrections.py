"""Correction of a fact by an operator, and its undo, each in one commit.

See decision 90.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from memoryhub.errors import (
    ContentErasedError,
    FactUnknownError,
    InvalidError,
    StaleError,
)
from memoryhub.kernel.knowledge.facts import (
    AssertFacts,
    FactAsserted,
    FactRetracted,
    NewFact,
    RetractFacts,
)
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import facts as reading
from memoryhub.queries.knowledge.facts import (
    AssertionLine,
    AssertionSource,
    FactStory,
)
from memoryhub.queries.knowledge.timelines import find_timeline
from memoryhub.services.knowledge import facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A new value of a fact."""

    value: str
    #: Since when the new value is true; None: the old value was never true.
    since: datetime | None


def build_correction(
    subject: Subject, story: FactStory, correction: Correction, *, now: datetime
) -> AssertFacts:
    """Build the command that corrects a fact.

    A value that was never true is retracted as wrong, and the new value takes its time.
    A value that has changed ends where the new one begins. Raises InvalidError of
    `value` for the same value, of `since` for a time before the old value was true.
    """
    was, since = story.fact, correction.since
    if correction.value == was.value:
        raise InvalidError(loc="value")
    many = was.cardinality == "multi"
    old = NewFact(was.entity, was.predicate, was.value, "operator", many=many)
    new = old._replace(value=correction.value)
    if since is None:
        claims = [_take_time(new, story)]
        gone = RetractFacts(seqs=story.rests_on, reason="wrong")
    else:
        if since <= was.valid_from:
            raise InvalidError(loc="since")
        claims, gone = [new._replace(valid_from=since)], None
        if many:
            # Other values of the property are no reason for this value to end.
            ended = old._replace(valid_from=was.valid_from, valid_until=since)
            claims.insert(0, ended)
    command = facts.build_assertion(
        subject, [(claim, None) for claim in claims], now=now
    )
    return replace(command, replaced=gone)


def _take_time(claim: NewFact, story: FactStory) -> NewFact:
    """Return the claim over the time of the assertions that the fact rests on.

    An end that follows from a later value is none of theirs: should that value go, the
    fact would go on.
    """
    rests = [each for each in story.unopened.recorded if each.seq in story.rests_on]
    ends = {each.valid_until for each in rests}
    until = story.fact.valid_until
    return claim._replace(
        valid_from=min(each.valid_from for each in rests),
        valid_until=until if until in ends else None,
    )


def build_undo(home: Thread, seq: int, *, now: datetime) -> AssertFacts | RetractFacts:
    """Build the command that undoes the correction whose last event is `seq`.

    Its claims are withdrawn, and what they replaced is asserted again, with its source.
    Nine queries. Raises FactUnknownError for an event by which no operator asserted a
    fact, StaleError if the property has changed since, ContentErasedError if what was
    there before is erased.
    """
    edit, timeline = reading.find_edit(home, seq), find_timeline(home, seq)
    if edit is None or timeline is None:
        raise FactUnknownError
    if not edit.standing:
        raise StaleError
    made, gone = _find_commit(home, seq)
    withdrawal = RetractFacts(seqs=tuple(made), reason="withdrawn")
    if not gone:
        return withdrawal
    replaced = [(timeline, each) for each in timeline.assertions if each.seq in gone]
    lines = [*reading.iter_assertion_lines(home, replaced)]
    if not lines:
        raise ContentErasedError
    claims = dict.fromkeys(map(_build_claim, lines))
    command = facts.build_assertion(home.subject, [*claims], now=now)
    return replace(command, replaced=withdrawal)


def _find_commit(home: Thread, seq: int) -> tuple[list[int], set[int]]:
    """Find the assertions of a commit that ends at `seq`, and those that it retracted.

    One query.
    """
    rows = Event.objects.filter(thread=home, seq__lte=seq).order_by("-seq")
    made, gone = list[int](), set[int]()
    last: Event | None = None
    for row in rows.only("seq", "type", "at", "actor", "body").iterator(chunk_size=10):
        last = last or row
        if (row.at, row.actor) != (last.at, last.actor):
            break
        if row.type == FactAsserted.event_type:
            made.append(row.seq)
        elif row.type == FactRetracted.event_type:
            gone.update(orjson.loads(row.body)["seqs"])
    return made, gone


def _build_claim(line: AssertionLine) -> tuple[NewFact, AssertionSource | None]:
    claim = NewFact(
        entity=line.entity,
        predicate=line.predicate,
        value=line.value,
        origin="operator",
        confidence=line.confidence,
        valid_from=line.valid_from,
        valid_until=line.valid_until,
        many=line.many,
    )
    return claim, line.source
