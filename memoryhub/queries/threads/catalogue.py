"""Catalogue of a project's threads, for searches by people. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.lists.terms import (
    NumberSpan,
    Period,
    SearchTerm,
    Value,
    WordValue,
    filter_span,
    filter_time,
    filter_word,
)
from memoryhub.queries.threads import retention, verdicts
from memoryhub.queries.threads.threads import LISTED_LAG, ThreadLine, filter_visible
from memoryhub.queries.threads.verdicts import ThreadVerdict

#: Sort columns: newest or largest first, names in alphabetical order.
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
#: Sort orders that are ascending by default.
RISING = frozenset({"name", "rate"})
#: Search keys that are columns, by type of value.
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
#: Maximum count of new or moved threads, and of matching threads.
FRESH, COUNTED = 100, 1_000
#: Number of latest moved threads, and of latest events of each, searched for an actor.
_LOOKED, _LATELY = 200, 20
_CHUNK = 200
#: States of subjects whose threads no list shows, though the rows still have names.
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
) -> ListBatch[ThreadLine]:
    """List threads that match all terms, in one batch. One query.

    Largest first, or smallest first if `rising`; both orders use an index.

    Raises BadCursorError when `after` is not a cursor of this very list.
    """
    column = SORTS[sort]
    # The due date follows from the policy, which may change between two batches.
    policy = [project.retention_idle_days for term in terms if term.key in _BY_POLICY]
    filters = [[term.to_json() for term in terms], sort, rising, policy]
    listing = ListScope(name="catalogue", project=project.id, filters=filters)
    rows = filter_threads(project, terms=terms, now=now, restricted=restricted)
    if after is not None:
        rows = rows.filter(_build_after(column, *listing.open(after), rising=rising))
    ordering = (column, "-id") if rising else (f"-{column}", "id")
    found = list(rows.order_by(*ordering)[: limit + 1])
    batch, rest = found[:limit], found[limit:]
    lines = [ThreadLine.from_row(row) for row in batch]
    if sort == "active":
        # The index lags by up to LISTED_LAG, and the page shows the exact time.
        lines.sort(key=lambda line: line.last_event_at, reverse=not rising)
    return ListBatch(
        items=tuple(lines),
        next=listing.seal([getattr(batch[-1], column), batch[-1].id]) if rest else None,
    )


def _build_after(column: str, value: Any, last: str, *, rising: bool) -> Q:
    """Build the condition on rows after a row of the list, ties by id."""
    onward, tie = ("gt", "lt") if rising else ("lt", "gt")
    # The first condition follows from the others and lets the database seek in the
    # index.
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
    """Count matching threads, up to COUNTED. One query."""
    rows = filter_threads(project, terms=terms, now=now, restricted=restricted)
    return rows.order_by()[:COUNTED].count()


def list_named(
    project: Project, names: Collection[str], *, restricted: bool = True
) -> list[Thread]:
    """List the threads of these names that a person may see, with subjects. One query.

    The threads come with their project, too.
    """
    rows = _filter_visible(project, restricted=restricted)
    rows = rows.select_related("subject", "project")
    return list(rows.filter(name__in=names).order_by("name"))


def iter_threads(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    restricted: bool = True,
) -> Iterator[list[ThreadLine]]:
    """Yield all matching threads, oldest first, in chunks. One query a chunk."""
    rows = filter_threads(project, terms=terms, now=now, restricted=restricted)
    rows = rows.order_by("created_at", "id")
    beyond = Q()
    while True:
        chunk = list(rows.filter(beyond)[:_CHUNK])
        if chunk:
            yield [ThreadLine.from_row(row) for row in chunk]
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
    """Count matching threads created or moved since an instant, up to FRESH."""
    rows = filter_threads(project, terms=terms, now=now, restricted=restricted)
    return rows.filter(listed_at__gt=since).order_by()[:FRESH].count()


def find_written(
    project: Project, *, actor: str, since: datetime, restricted: bool = True
) -> ThreadLine | None:
    """Find the latest moved thread that an actor created or wrote to.

    Three queries, over at most `_LOOKED` threads that moved since then and the last
    events of each.
    """
    rows = _filter_visible(project, restricted=restricted)
    moved = rows.filter(listed_at__gt=since - LISTED_LAG)
    looked = moved.order_by("-listed_at", "id").values_list("id", "head_seq")
    heads, last = dict(looked[:_LOOKED]), Q()
    for thread, head in heads.items():
        last |= Q(Q(seq=1) | Q(seq__gt=head - _LATELY), thread=thread)
    # A join with the threads would not do on a cluster.
    events = Event.objects.filter(last, actor=actor) if heads else Event.objects.none()
    written = {*events.values_list("thread_id", flat=True)}
    found = next((thread for thread in heads if thread in written), None)
    row = None if found is None else Thread.objects.filter(id=found).first()
    return None if row is None else ThreadLine.from_row(row)


def filter_threads(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    restricted: bool = True,
) -> QuerySet[Thread]:
    """Return the project's threads that match all terms; never erased threads.

    Threads of restricted subjects are included only with `restricted`, for callers that
    may see such threads.
    """
    rows = _filter_visible(project, restricted=restricted)
    for term in terms:
        any_of = Q()
        for value in term.values:
            any_of |= _build_condition(project, term.key, value, now)
        rows = rows.exclude(any_of) if term.negated else rows.filter(any_of)
    return rows


def _filter_visible(project: Project, *, restricted: bool) -> QuerySet[Thread]:
    unseen = _GONE if restricted else (*_GONE, Subject.State.RESTRICTED)
    rows = (
        filter_visible(project.id)
        .filter(home=False)
        .exclude(status=Thread.Status.ERASED)
    )
    return rows.exclude(subject__state__in=unseen)


def _build_condition(project: Project, key: str, value: Value, now: datetime) -> Q:
    if key.startswith(LABEL):
        return _build_label_condition(key.removeprefix(LABEL), value)
    if isinstance(value, WordValue):
        if key == "subject":
            return _build_subject_condition(project, value)
        if key == "flag":
            return _FLAGS[value.text](project, now)
        return filter_word(NAMES[key], value)
    if key in ("at", "active"):
        return _build_active_condition(value, now)
    assert isinstance(value, NumberSpan)
    if key == "due":
        return _build_due_condition(project, value, now)
    return filter_span(NUMBERS[key], value)


def _build_active_condition(stretch: NumberSpan | Period, now: datetime) -> Q:
    """Build the condition on last activity, with a bound that uses the list's index."""
    found = filter_time("last_active_at", stretch, now)
    if isinstance(stretch, NumberSpan):
        begin = None if stretch.high is None else now - timedelta(seconds=stretch.high)
    else:
        begin = stretch.begin
    if begin is None or begin.year < 1970:
        return found
    return found & Q(listed_at__gt=begin - LISTED_LAG)


def _build_due_condition(project: Project, span: NumberSpan, now: datetime) -> Q:
    return Q(id__in=retention.filter_due_in(project, span, now=now).values("id"))


def _build_label_condition(name: str, value: Value) -> Q:
    assert isinstance(value, WordValue)
    labels = ThreadLabel.objects.filter(thread=OuterRef("pk"), name=name)
    return Q(Exists(labels.filter(filter_word("value", value))))


def _build_subject_condition(project: Project, word: WordValue) -> Q:
    """Match a subject by its whole UUID, or by its last digits as lists show them."""
    plain = word.text.replace("-", "").lower()
    if len(plain) == 32:
        return Q(subject_id=plain)
    rows = Subject.objects.filter(project=project, id__endswith=plain)
    return Q(subject__in=rows.values("id"))


def _build_verdict_condition(
    verdict: ThreadVerdict,
) -> Callable[[Project, datetime], Q]:
    return lambda project, now: (
        verdicts.build_used_condition(now) & verdict.condition(now, project)
    )


#: Flags in a list, each linked to a search for threads with the same flag.
_FLAGS: dict[str, Callable[[Project, datetime], Q]] = {
    "due": lambda project, now: _build_due_condition(
        project, retention.build_soon_span(), now
    ),
    "unobserved": lambda _, __: Q(observer_due=True, status=Thread.Status.OPEN),
    **{each.flag: _build_verdict_condition(each) for each in verdicts.VERDICTS},
}
FLAGS = tuple(_FLAGS)
