"""Commands for facts of a subject: assert, end, retract, configure timelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple
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
from memoryhub.queries.knowledge.facts import FactStory
from memoryhub.queries.threads import threads

#: Event types that can be the source of an assertion: all searchable content, except
#: values and tasks, which change with the job, and facts themselves.
SOURCES: Final = tuple(
    name
    for name, event in TYPES.items()
    if event.searched and event.searched.kind not in ("value", "task", "fact")
)


class SourceAddress(NamedTuple):
    """Address of a source record, as a client names it."""

    thread: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDraft:
    """Claim to be asserted; its texts are within their bounds."""

    entity: str
    predicate: str
    value: str
    origin: Origin
    confidence: float | None = None
    #: None: the time of its source, or now.
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    many: bool = False
    source: SourceAddress | None = None


class _SourceRecord(NamedTuple):
    """Source record that exists."""

    place: PlaceBody
    #: Time of the record by its agent, else its recorded time.
    at: datetime


def build_assertion(
    subject: Subject,
    drafts: Sequence[FactDraft],
    *,
    now: datetime,
    bound: UUID | None = None,
) -> AssertFacts:
    """Build the command that asserts these claims. Two queries for each source thread.

    Raises InvalidError `unknown_source` for a source that does not exist or is another
    subject's, and `value` for an interval that ends before it begins.
    """
    found = _find_sources(subject, {d.source for d in drafts if d.source}, bound)
    made = []
    for number, draft in enumerate(drafts):
        loc = f"items.{number}." if len(drafts) > 1 else ""
        source = None
        if draft.source is not None and (source := found.get(draft.source)) is None:
            raise InvalidError(code="unknown_source", loc=f"{loc}source")
        begin = draft.valid_from or (source.at if source else now)
        if draft.valid_until is not None and draft.valid_until <= begin:
            raise InvalidError(loc=f"{loc}valid_until")
        made.append(_build_fact(replace(draft, valid_from=begin), source))
    return AssertFacts(facts=tuple(made))


def _build_fact(draft: FactDraft, source: _SourceRecord | None) -> NewFact:
    """Build the new fact of a draft."""
    plain: dict[str, Any] = {
        "entity": draft.entity,
        "predicate": draft.predicate,
        "value": draft.value,
        "confidence": draft.confidence,
        "many": draft.many or None,
        "valid_from": draft.valid_from.isoformat() if draft.valid_from else None,
        "valid_until": draft.valid_until.isoformat() if draft.valid_until else None,
    }
    kept = {name: value for name, value in plain.items() if value is not None}
    return NewFact(
        timeline=(draft.entity, draft.predicate),
        origin=draft.origin,
        payload=strict_json.dump_stored(kept),
        source=source.place if source else None,
    )


def _find_sources(
    subject: Subject, wanted: Iterable[SourceAddress], bound: UUID | None
) -> Mapping[SourceAddress, _SourceRecord]:
    """Find the source records of this subject, by address."""
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
            found[SourceAddress(name, row.seq)] = _SourceRecord(place, at)
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
    draft = FactDraft(
        entity=fact.entity,
        predicate=fact.predicate,
        value=fact.value,
        origin=origin,
        valid_from=fact.valid_from,
        valid_until=at,
    )
    return build_assertion(subject, [draft], now=now)


def build_retraction(
    subject: Subject, seq: int, reason: Reason, *, whole: bool, now: datetime
) -> RetractFacts:
    """Build the command that retracts an assertion, or all assertions of a fact.

    Raises FactUnknownError for an unknown fact.
    """
    if not whole:
        return RetractFacts(seqs=(seq,), reason=reason)
    story: FactStory = facts.get_fact(subject, seq, now=now)
    return RetractFacts(seqs=story.rests_on, reason=reason)


def build_configuration(
    entity: str, predicate: str, cardinality: Cardinality | None
) -> ConfigureTimeline:
    """Build the command that sets whether a timeline holds several values at once."""
    plain = {"entity": entity, "predicate": predicate}
    return ConfigureTimeline(
        cardinality=cardinality, payload=strict_json.dump_stored(plain)
    )
