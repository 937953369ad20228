"""The catalogue: a project's threads as people search them. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.lists.terms import (
    Period,
    SearchTerm,
    Span,
    Value,
    Word,
    span_of,
    time_of,
    word_in,
)
from memoryhub.queries.threads import retention, verdicts
from memoryhub.queries.threads.threads import LISTED_LAG, ThreadLine, scoped
from memoryhub.queries.threads.verdicts import ThreadVerdict

#: Columns that lists sort by: newest or largest first, names as in a dictionary.
SORTS = {
    "active": "listed_at",
    "created": "created_at",
    "name": "name",
    "rate": "listed_rate",
    "turns": "listed_turns",
    "slots": "listed_slots",
    "tokens": "listed_tokens",
    "packed": "listed_resident",
    "faults": "listed_faults",
}
#: Orders that begin with the least unless the other way is asked for.
RISING = frozenset({"name", "rate"})
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
#: More new or moved threads than this are not counted, nor more that match.
FRESH, COUNTED = 100, 1_000
#: Threads that moved last, and events at the end of each, that are looked at for what
#: somebody wrote.
_LOOKED, _LATELY = 500, 20
_CHUNK = 200
#: Whose threads are in no list any more, though they may still have their names.
_GONE = (Subject.State.ERASING, Subject.State.ERASED)


def list_threads(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    sort: str = "active",
    rising: bool = False,
    after: str | None = None,
    limit: int = 50,
    restricted: bool = True,
) -> Batch[ThreadLine]:
    """List threads that match all terms, in one batch. One query.

    The largest come first, or the least if `rising`; either way along an index.

    Raises BadCursorError when `after` is not of this very list.
    """
    column = SORTS[sort]
    # What is due goes by the policy, which may be another one by the next batch.
    policy = [project.retention_idle_days for term in terms if term.key in _BY_POLICY]
    filters = [[term.plain() for term in terms], sort, rising, policy]
    listing = Listing(name="catalogue", project=project.id, filters=filters)
    rows = matching(project, terms=terms, now=now, restricted=restricted)
    if after is not None:
        rows = rows.filter(_behind(column, *listing.open(after), rising=rising))
    ordering = (column, "-id") if rising else (f"-{column}", "id")
    found = list(rows.order_by(*ordering)[: limit + 1])
    batch, rest = found[:limit], found[limit:]
    return Batch(
        items=tuple(ThreadLine.of(row) for row in batch),
        next=listing.seal([getattr(batch[-1], column), batch[-1].id]) if rest else None,
    )


def _behind(column: str, value: Any, last: str, *, rising: bool) -> Q:
    """Filter what follows a row of the list, ties by id."""
    onward, tie = ("gt", "lt") if rising else ("lt", "gt")
    # The first follows from the others; by it an index is entered where the list was.
    return Q(**{f"{column}__{onward}e": value}) & (
        Q(**{f"{column}__{onward}": value}) | Q(**{column: value, f"id__{tie}": last})
    )


def count_threads(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    restricted: bool = True,
) -> int:
    """Count matching threads, at most COUNTED of them. One query."""
    rows = matching(project, terms=terms, now=now, restricted=restricted)
    return rows.order_by()[:COUNTED].count()


def list_named(
    project: Project, names: Collection[str], *, restricted: bool = True
) -> list[Thread]:
    """List the threads of these names that are there for a person. One query."""
    rows = _visible(project, restricted=restricted)
    return list(rows.filter(name__in=names).order_by("name"))


def iter_threads(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    restricted: bool = True,
) -> Iterator[list[ThreadLine]]:
    """Yield all threads that match, oldest first, in chunks. One query a chunk."""
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
    terms: Sequence[SearchTerm],
    now: datetime,
    since: datetime,
    restricted: bool = True,
) -> int:
    """Count matching threads that are new or have moved since then, at most FRESH."""
    rows = matching(project, terms=terms, now=now, restricted=restricted)
    return rows.filter(listed_at__gt=since).order_by()[:FRESH].count()


def find_written(
    project: Project, *, actor: str, since: datetime, restricted: bool = True
) -> ThreadLine | None:
    """Find the thread that an actor made or wrote to, the one that moved last.

    One query, of at most `_LOOKED` threads that moved since then and the last events of
    each.
    """
    rows = _visible(project, restricted=restricted)
    moved = rows.filter(listed_at__gt=since - LISTED_LAG)
    looked = moved.order_by("-listed_at", "id")[:_LOOKED].values("id")
    written = Event.objects.filter(thread=OuterRef("pk"), actor=actor)
    found = Thread.objects.filter(
        Exists(written.filter(seq=1))
        | Exists(written.filter(seq__gt=OuterRef("head_seq") - _LATELY)),
        id__in=looked,
    )
    row = found.order_by("-listed_at", "id").first()
    return None if row is None else ThreadLine.of(row)


def matching(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    restricted: bool = True,
) -> QuerySet[Thread]:
    """Return the project's threads that all terms hold for; never erased ones.

    Those of restricted subjects are only for who may see them.
    """
    rows = _visible(project, restricted=restricted)
    for term in terms:
        any_of = Q()
        for value in term.values:
            any_of |= _holds(project, term.key, value, now)
        rows = rows.exclude(any_of) if term.negated else rows.filter(any_of)
    return rows


def _visible(project: Project, *, restricted: bool) -> QuerySet[Thread]:
    unseen = _GONE if restricted else (*_GONE, Subject.State.RESTRICTED)
    rows = scoped(project.id).filter(home=False).exclude(status=Thread.Status.ERASED)
    return rows.exclude(subject__state__in=unseen)


def _holds(project: Project, key: str, value: Value, now: datetime) -> Q:
    if key.startswith(LABEL):
        return _label(key.removeprefix(LABEL), value)
    if isinstance(value, Word):
        if key == "subject":
            return _subject(project, value)
        if key == "flag":
            return _FLAGS[value.text](project, now)
        return word_in(NAMES[key], value)
    if key in ("at", "active"):
        return _active(value, now)
    assert isinstance(value, Span)
    if key == "due":
        return _due(project, value, now)
    return span_of(NUMBERS[key], value)


def _active(stretch: Span | Period, now: datetime) -> Q:
    """By the last activity, for which the index of the list is as good."""
    found = time_of("last_active_at", stretch, now)
    if isinstance(stretch, Span):
        begin = None if stretch.high is None else now - timedelta(seconds=stretch.high)
    else:
        begin = stretch.begin
    if begin is None or begin.year < 1970:
        return found
    return found & Q(listed_at__gt=begin - LISTED_LAG)


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


def _by_verdict(verdict: ThreadVerdict) -> Callable[[Project, datetime], Q]:
    return lambda _, now: verdicts.looked_at(now) & verdict.condition(now)


#: What a list says of a thread beside its columns, and leads from to its like.
_FLAGS: dict[str, Callable[[Project, datetime], Q]] = {
    "due": lambda project, now: _due(project, retention.soon(), now),
    **{each.flag: _by_verdict(each) for each in verdicts.VERDICTS},
}
FLAGS = tuple(_FLAGS)
