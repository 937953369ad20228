"""The catalogue: a project's threads as people search them. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Least
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual

from memoryhub.kernel.state.paging import EXCHANGES_KEPT
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.lists.terms import (
    Span,
    Term,
    Value,
    Word,
    age_of,
    span_of,
    word_in,
)
from memoryhub.queries.threads import retention
from memoryhub.queries.threads.threads import ThreadLine, scoped

#: Columns that lists sort by, newest or largest first.
SORTS = {"active": "listed_at", "created": "created_at", "slots": "listed_slots"}
#: Search keys that are columns, by what their values are.
NAMES = {
    "name": "name",
    "status": "status",
    "agent_type": "agent_type",
    "agent_instance": "agent_instance",
    "session": "session",
}
NUMBERS = {
    "slots": "slot_count",
    "events": "head_seq",
    "turns": "turn_count",
    "tokens": "token_count",
    "faults": "fault_count",
}
LABEL = "label."
_BY_POLICY = ("due", "flag")
#: More new or moved threads than this are not counted.
FRESH = 100
_CHUNK = 200
#: Whose threads are in no list any more, though they may still have their names.
_GONE = (Subject.State.ERASING, Subject.State.ERASED)


def list_threads(
    project: Project,
    *,
    terms: Sequence[Term],
    now: datetime,
    sort: str = "active",
    after: str | None = None,
    limit: int = 50,
    restricted: bool = True,
) -> Batch[ThreadLine]:
    """Threads that match all terms, in one batch. One query.

    Raises BadCursorError when `after` is not of this very list.
    """
    column = SORTS[sort]
    # What is due goes by the policy, which may be another one by the next batch.
    policy = [project.retention_idle_days for term in terms if term.key in _BY_POLICY]
    filters = [[term.plain() for term in terms], sort, policy]
    listing = Listing(name="catalogue", project=project.id, filters=filters)
    rows = matching(project, terms=terms, now=now, restricted=restricted)
    if after is not None:
        value, last = listing.open(after)
        behind = Q(**{f"{column}__lt": value})
        rows = rows.filter(behind | Q(**{column: value, "id__gt": last}))
    found = list(rows.order_by(f"-{column}", "id")[: limit + 1])
    batch, rest = found[:limit], found[limit:]
    return Batch(
        items=tuple(ThreadLine.of(row) for row in batch),
        next=listing.seal([getattr(batch[-1], column), batch[-1].id]) if rest else None,
    )


def iter_threads(
    project: Project, *, terms: Sequence[Term], now: datetime, restricted: bool = True
) -> Iterator[list[ThreadLine]]:
    """All threads that match, oldest first, in chunks. One query a chunk."""
    rows = matching(project, terms=terms, now=now, restricted=restricted)
    rows = rows.order_by("created_at", "id")
    beyond = Q()
    while True:
        chunk = list(rows.filter(beyond)[:_CHUNK])
        if chunk:
            yield [ThreadLine.of(row) for row in chunk]
        if len(chunk) < _CHUNK:
            return
        at, last = chunk[-1].created_at, chunk[-1].id
        beyond = Q(created_at__gt=at) | Q(created_at=at, id__gt=last)


def count_fresh(
    project: Project,
    *,
    terms: Sequence[Term],
    now: datetime,
    since: datetime,
    restricted: bool = True,
) -> int:
    """Matching threads that are new or have moved since then, at most FRESH."""
    rows = matching(project, terms=terms, now=now, restricted=restricted)
    return rows.filter(listed_at__gt=since).order_by()[:FRESH].count()


def matching(
    project: Project, *, terms: Sequence[Term], now: datetime, restricted: bool = True
) -> QuerySet[Thread]:
    """The project's threads that all terms hold for; never erased ones.

    Those of restricted subjects are only for who may see them.
    """
    unseen = _GONE if restricted else (*_GONE, Subject.State.RESTRICTED)
    rows = scoped(project.id).exclude(status=Thread.Status.ERASED)
    rows = rows.exclude(subject__state__in=unseen)
    for term in terms:
        some = Q()
        for value in term.values:
            some |= _holds(project, term.key, value, now)
        rows = rows.exclude(some) if term.negated else rows.filter(some)
    return rows


def _holds(project: Project, key: str, value: Value, now: datetime) -> Q:
    if key.startswith(LABEL):
        return _label(key.removeprefix(LABEL), value)
    if isinstance(value, Word):
        if key == "subject":
            return _subject(project, value)
        if key == "flag":
            return _FLAGS[value.text](project, now)
        return word_in(NAMES[key], value)
    assert isinstance(value, Span)
    if key == "active":
        return age_of("last_active_at", value, now)
    if key == "due":
        return _due(project, value, now)
    return span_of(NUMBERS[key], value)


def _due(project: Project, span: Span, now: datetime) -> Q:
    return Q(id__in=retention.due_in(project, span, now=now).values("id"))


def _label(name: str, value: Value) -> Q:
    assert isinstance(value, Word)
    labels = ThreadLabel.objects.filter(thread=OuterRef("pk"), name=name)
    return Q(Exists(labels.filter(word_in("value", value))))


def _subject(project: Project, word: Word) -> Q:
    """By the whole UUID, or by the digits at its end that lists show."""
    plain = word.text.replace("-", "").lower()
    if len(plain) == 32:
        return Q(subject_id=plain)
    rows = Subject.objects.filter(project=project, id__endswith=plain)
    return Q(subject__in=rows.values("id"))


#: Refaults in the last turns from which on a thread thrashes: an index of 0.5.
THRASHING_REFAULTS = 3
#: Exchanges and look-ups that a rate needs to say something.
ENOUGH_EXCHANGES, ENOUGH_LOOKUPS = 5, 100


def _faulting() -> Q:
    """A resident rate below 0.50 of enough exchanges."""
    enough = Q(exchange_count__gte=ENOUGH_EXCHANGES)
    last = Least(F("exchange_count"), EXCHANGES_KEPT)
    return enough & Q(GreaterThan(F("faulted_lately_count") * 2, last))


def _missing() -> Q:
    """A hit rate of the TLB below 0.60 of enough look-ups."""
    enough = GreaterThanOrEqual(F("tlb_hits") + F("tlb_misses"), ENOUGH_LOOKUPS)
    return Q(GreaterThan(F("tlb_misses") * 3, F("tlb_hits") * 2)) & Q(enough)


#: What a list says of a thread beside its columns, and leads from to its like.
_FLAGS: dict[str, Callable[[Project, datetime], Q]] = {
    "full": lambda project, now: Q(nearly_full=True),
    "due": lambda project, now: _due(project, retention.soon(), now),
    "thrashing": lambda project, now: Q(refault_count__gte=THRASHING_REFAULTS),
    "faulting": lambda project, now: _faulting(),
    "missing": lambda project, now: _missing(),
}
FLAGS = tuple(_FLAGS)
