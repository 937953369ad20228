"""Facts of a subject: asserted, ended, retracted, their timelines configured."""

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
from memoryhub.journal.log import log
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
from memoryhub.kernel.threads.slots import agent_time
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import FactStory
from memoryhub.queries.threads import threads

#: What an assertion can be learnt from, by the event's type: what is found by its
#: words, but for what changes with the job at hand, and facts themselves.
SOURCES: Final = tuple(
    name
    for name, event in TYPES.items()
    if event.searched and event.searched.kind not in ("value", "task", "fact")
)


class SourceAddress(NamedTuple):
    """A record as a client names it."""

    thread: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDraft:
    """A claim as it is made; its texts are within their bounds."""

    entity: str
    predicate: str
    value: str
    origin: Origin
    confidence: float | None = None
    #: None: when its source was recorded, or now.
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    many: bool = False
    source: SourceAddress | None = None


class _Record(NamedTuple):
    """A source that there is."""

    place: PlaceBody
    #: When it was, as its agent says, else when it was recorded.
    at: datetime


def assertion(
    subject: Subject,
    drafts: Sequence[FactDraft],
    *,
    now: datetime,
    bound: UUID | None = None,
) -> AssertFacts:
    """Make the command of these claims. Two queries for each thread of a source.

    Raises InvalidError `unknown_source` for one that is none, or of another subject,
    and `value` for an interval that is over before it begins.
    """
    found = _sources(subject, {d.source for d in drafts if d.source}, bound)
    made = []
    for number, draft in enumerate(drafts):
        loc = f"items.{number}." if len(drafts) > 1 else ""
        source = None
        if draft.source is not None and (source := found.get(draft.source)) is None:
            raise InvalidError(code="unknown_source", loc=f"{loc}source")
        begin = draft.valid_from or (source.at if source else now)
        if draft.valid_until is not None and draft.valid_until <= begin:
            raise InvalidError(loc=f"{loc}valid_until")
        made.append(_new(replace(draft, valid_from=begin), source))
    return AssertFacts(facts=tuple(made))


def _new(draft: FactDraft, source: _Record | None) -> NewFact:
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
        payload=strict_json.as_sent(kept),
        source=source.place if source else None,
    )


def _sources(
    subject: Subject, wanted: Iterable[SourceAddress], bound: UUID | None
) -> Mapping[SourceAddress, _Record]:
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
            payload = log.open_payload(thread.subject, thread.project_id, row) or {}
            place = PlaceBody(seq=row.seq, thread=str(thread.id))
            at = agent_time(payload) or row.at
            found[SourceAddress(name, row.seq)] = _Record(place, at)
    return found


def ending(
    subject: Subject, seq: int, *, at: datetime, origin: Origin, now: datetime
) -> AssertFacts:
    """Make the command that ends a fact: its value asserted with that end.

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
    return assertion(subject, [draft], now=now)


def retraction(
    subject: Subject, seq: int, reason: Reason, *, whole: bool, now: datetime
) -> RetractFacts:
    """Make the command that takes an assertion, or all of a fact, out of what counts.

    Raises FactUnknownError for a fact that there is not.
    """
    if not whole:
        return RetractFacts(seqs=(seq,), reason=reason)
    story: FactStory = facts.get_fact(subject, seq, now=now)
    return RetractFacts(seqs=story.rests_on, reason=reason)


def configuration(
    entity: str, predicate: str, cardinality: Cardinality | None
) -> ConfigureTimeline:
    """Make the command that sets whether several values of a timeline hold at once."""
    plain = {"entity": entity, "predicate": predicate}
    return ConfigureTimeline(
        cardinality=cardinality, payload=strict_json.as_sent(plain)
    )
