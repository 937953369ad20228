"""Commands for facts of a subject: assert, end, retract, configure timelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from memoryhub.errors import (
    InvalidError,
    NotFoundError,
    SubjectErasedError,
    ThreadErasedError,
)
from memoryhub.journal import texts
from memoryhub.kernel.knowledge.facts import (
    AssertFacts,
    ConfigureTimeline,
    NewFact,
    Reason,
    RetractFacts,
)
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state.knowledge import Cardinality, Origin
from memoryhub.kernel.state.page_events import PlaceBody
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import AssertionSource
from memoryhub.queries.threads import threads

#: Event types that can be the source of an assertion: all searchable content, except
#: values and tasks, which change with the job, and facts themselves.
SOURCES: Final = tuple(
    name
    for name, event in TYPES.items()
    if event.searched and event.searched.kind not in ("value", "task", "fact")
)


def build_assertion(
    subject: Subject,
    claims: Sequence[tuple[NewFact, AssertionSource | None]],
    *,
    now: datetime,
    bound: UUID | None = None,
) -> AssertFacts:
    """Build the command that asserts these claims, each with its source if it has one.

    A claim without a begin begins at the time of its source, or now. Two queries for
    each source thread. Raises InvalidError `unknown_source` for a source that does not
    exist or is another subject's, and `value` for an interval that ends before it
    begins.
    """
    found = _find_sources(subject, {named for _, named in claims if named}, bound)
    made = []
    for number, (claim, named) in enumerate(claims):
        loc = f"items.{number}." if len(claims) > 1 else ""
        if named is not None and named not in found:
            raise InvalidError(code="unknown_source", loc=f"{loc}source")
        place, at = found[named] if named else (None, now)
        begin = claim.valid_from or at
        if claim.valid_until is not None and claim.valid_until <= begin:
            raise InvalidError(loc=f"{loc}valid_until")
        made.append(claim._replace(valid_from=begin, source=place))
    return AssertFacts(facts=tuple(made))


def _find_sources(
    subject: Subject, wanted: Iterable[AssertionSource], bound: UUID | None
) -> Mapping[AssertionSource, tuple[PlaceBody, datetime]]:
    """Find the source records of this subject: the place and the time of each.

    The time is that given by the record's agent, else the recorded time.
    """
    by_thread: dict[str, set[int]] = {}
    for name, seq in wanted:
        by_thread.setdefault(name, set()).add(seq)
    found = {}
    for name, seqs in by_thread.items():
        try:
            thread = threads.get_thread(subject.project_id, name, bound=bound)
        except (NotFoundError, ThreadErasedError, SubjectErasedError):
            continue
        if thread.subject_id != subject.id:
            continue
        rows = Event.objects.filter(
            thread=thread, seq__in=seqs, type__in=SOURCES, payload__isnull=False
        )
        for row in rows:
            payload = texts.open_content(thread, row)
            place = PlaceBody(seq=row.seq, thread=str(thread.id))
            at = parse_agent_time(payload) or row.at
            found[AssertionSource(name, row.seq)] = place, at
    return found


def build_ending(
    subject: Subject, seq: int, *, at: datetime, origin: Origin, now: datetime
) -> AssertFacts:
    """Build the command that ends a fact: its value asserted again with that end.

    Raises FactUnknownError, and InvalidError for an end before the fact begins.
    """
    fact = facts.get_fact(subject, seq, now=now, valid_at=at).fact
    if at <= fact.valid_from:
        raise InvalidError(loc="at")
    claim = NewFact(
        entity=fact.entity,
        predicate=fact.predicate,
        value=fact.value,
        origin=origin,
        valid_from=fact.valid_from,
        valid_until=at,
    )
    return build_assertion(subject, [(claim, None)], now=now)


def build_retraction(
    subject: Subject, seq: int, reason: Reason, *, whole: bool, now: datetime
) -> RetractFacts:
    """Build the command that retracts an assertion, or all assertions of a fact.

    Raises FactUnknownError for an unknown fact.
    """
    seqs = facts.get_fact(subject, seq, now=now).rests_on if whole else (seq,)
    return RetractFacts(seqs=seqs, reason=reason)


def build_configuration(
    entity: str, predicate: str, cardinality: Cardinality | None
) -> ConfigureTimeline:
    """Build the command that sets whether a timeline holds several values at once."""
    plain = {"entity": entity, "predicate": predicate}
    return ConfigureTimeline(
        cardinality=cardinality, payload=strict_json.dump_stored(plain)
    )
