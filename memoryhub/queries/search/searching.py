"""Searching: a thread as of any event, or all threads of a subject. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from memoryhub.journal.writing import texts
from memoryhub.kernel.levels import marks
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.search import parsing, ranking
from memoryhub.kernel.search.contents import OBSERVATION
from memoryhub.kernel.search.index import Index
from memoryhub.kernel.search.parsing import Filters, SearchQuery
from memoryhub.kernel.search.ranking import CutTerm, Order, Ranked, Reason, Scope
from memoryhub.kernel.search.segments import ERASED
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.erased import named
from memoryhub.kernel.state.pages import BLOCK
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.search import indexes
from memoryhub.queries.search.hits import CHUNK, Hit, Missed, Untold, iter_hits
from memoryhub.queries.threads import forks

#: What can be found, as events declare it.
_DECLARED = (event.searched.kind for event in TYPES.values() if event.searched)
KINDS = (*dict.fromkeys(_DECLARED), BLOCK, OBSERVATION)
#: Of those, what has a page: it can be fetched.
FETCHED = frozenset({"message", "page", OBSERVATION})
#: Records that are opened for one answer, when a phrase is to be found in them.
OPENED = 1_000
#: Matches that are put in order where facts are told: most may be old values.
ORDERED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What is searched for. Raises InvalidError where it is made of a bad query."""

    query: SearchQuery
    order: Order = "best"
    limit: int = 5
    #: Old versions of pages as well.
    versions: bool = False
    #: By when texts are marked that no longer hold, and in recall which facts are told.
    #: None: assertions are found as they were made, and no text is marked.
    where: FactFilter | None = None

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        filters: Filters | None = None,
        order: Order = "best",
        limit: int = 5,
        versions: bool = False,
        can_exclude: bool = False,
    ) -> SearchRequest:
        """Parse a query; `filters` narrow what its own let by.

        A person `can_exclude` words by `not:word`.

        Raises InvalidError for a query that is too long, or with from after to.
        """
        query = parsing.parse(text, kinds=KINDS, can_exclude=can_exclude)
        if filters is not None:
            query = replace(query, filters=query.filters.narrowed(filters))
        return cls(query=query, order=order, limit=limit, versions=versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found, and what was left out of account."""

    items: tuple[Hit, ...] = ()
    #: Matches in all.
    total: int = 0
    #: Records that were looked through.
    searched: int = 0
    #: Why there are none.
    reason: Reason | None = None
    #: What the answer lacks: `indexing` while not all records can be found yet,
    #: `phrases` when not all candidates of a phrase were opened, `matches` when there
    #: are fewer hits than asked for and not all matches were looked at.
    degraded: tuple[str, ...] = ()
    #: Words that did not count.
    cut: tuple[CutTerm, ...] = field(default=())


class Place(NamedTuple):
    """Where a text lies that was found."""

    thread: UUID
    seq: int
    #: In the thread's own history.
    own: bool


def search_thread(
    thread: Thread,
    request: SearchRequest,
    *,
    seq: int | None = None,
    without: Sequence[Range] = (),
) -> SearchResult:
    """Search a thread and what it inherits, now or as of an event.

    Records of the ranges `without` are left out, as if nobody had written them.
    As of an event texts are marked by what was known at its time, and held then; no
    fact is told. `thread` comes with its subject. Five queries where nothing is new,
    and those of marks.
    """
    rows, up_to = _history(thread, seq)
    if request.where is not None and seq is not None:
        request = replace(request, where=_then(thread, seq))
    scope = Scope(up_to=up_to, lineage=True, versions=request.versions)
    return _search(rows, {row.id: row for row in rows}, request, scope, without)


def _then(thread: Thread, seq: int) -> FactFilter:
    """What was known at an event. One query."""
    events = Event.objects.filter(thread_id=thread.id, seq__lte=seq).order_by("-seq")
    at = events.values_list("at", flat=True).first() or thread.created_at
    return FactFilter(valid_at=at, known_at=at)


def iter_places(
    thread: Thread, text: str, *, seq: int, everywhere: bool
) -> Iterator[Place]:
    """Iterate over what a text is most about, best first, as of an event.

    Messages and pages, up to 5,000, in the thread and what it inherits, or `everywhere`
    in its subject's threads. None is opened: who does sees whether it is there still.
    `thread` comes with its subject. Five queries where nothing is new.
    """
    rows, up_to = _history(thread, seq)
    scope = Scope(up_to=up_to, lineage=True)
    if everywhere:
        others = [row for row in _threads(thread.subject) if row.id not in up_to]
        rows, scope = (
            [*rows, *others],
            Scope(up_to={**{row.id: row.head_seq for row in others}, **up_to}),
        )
    index = indexes.caught_up(rows, eldest=_eldest(scope)).index
    if scope.lineage:
        scope = replace(scope, gone=named(_erased(index, scope)).spans)
    words = ranking.rarest(index, parsing.words_of(text), parsing.MOST_TERMS)
    query = SearchQuery(words=words, filters=Filters(kinds=FETCHED))
    for at in ranking.rank(index, query, scope, "best").places:
        record = index.records[at]
        home = index.threads[int(record["thread"])]
        yield Place(home, int(record["seq"]), home in up_to)


def _history(thread: Thread, seq: int | None) -> tuple[list[Thread], dict[UUID, int]]:
    """The thread and its ancestors, and up to which seq each is seen."""
    segments = forks.get_segments(thread, up_to=seq)
    up_to = {part.thread: part.up_to_seq for part in segments}
    rows = Thread.objects.filter(id__in=up_to).exclude(id=thread.id)
    ancestors = [*rows] if len(up_to) > 1 else []
    for row in ancestors:
        row.subject = thread.subject
    return [thread, *ancestors], up_to


def recall(
    subject: Subject,
    request: SearchRequest,
    *,
    threads: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> SearchResult:
    """Search all threads of a subject, or those of these stored names.

    Four queries where nothing is new; linear in the subject's threads.
    """
    wanted = request.query.filters.threads
    named: set[str] | None = None
    if threads is not None or wanted:
        named = {*(threads or wanted)} & {*(wanted or threads or ())}
    found = _threads(subject, named=named, exclude=exclude)
    scope = Scope(
        up_to={row.id: row.head_seq for row in found}, versions=request.versions
    )
    return _search(found, {row.id: row for row in found}, request, scope)


def _eldest(scope: Scope) -> UUID | None:
    """The thread that a history begins with."""
    return next(iter(scope.up_to)) if scope.lineage else None


def _threads(
    subject: Subject, *, named: set[str] | None = None, exclude: Sequence[str] = ()
) -> list[Thread]:
    """The subject's threads, the newest first."""
    rows = Thread.objects.filter(project=subject.project_id, subject=subject)
    rows = rows.exclude(status__in=(Thread.Status.ERASED, Thread.Status.IMPORTING))
    rows = rows if named is None else rows.filter(name__in=named)
    rows = rows.exclude(name__in=[*exclude]) if exclude else rows
    found = list(rows.order_by("-listed_at", "id"))
    for row in found:
        row.subject = subject
    return found


def _search(
    rows: Sequence[Thread],
    threads: Mapping[UUID, Thread],
    request: SearchRequest,
    scope: Scope,
    without: Sequence[Range] = (),
) -> SearchResult:
    caught = indexes.caught_up(rows, eldest=_eldest(scope))
    index = caught.index
    if scope.lineage:
        gone = [*_erased(index, scope), *without]
        scope = replace(scope, gone=named(gone).spans)
    # What a thread's journal has of facts stays as it was asserted.
    facts = None if scope.lineage else request.where
    most = ranking.MOST if facts is None else ORDERED
    ranked = ranking.rank(index, request.query, scope, request.order, most)
    degraded = () if caught.complete else ("indexing",)
    found = SearchResult(
        searched=ranked.ranged, reason=ranked.reason, degraded=degraded, cut=ranked.cut
    )
    # Where all that holds a phrase is opened, it is in as few statements as may be.
    expected = CHUNK if request.query.phrases else request.limit
    every = iter_hits(index, ranked, request.query, threads, facts, expected=expected)
    return _opened(every, ranked, request, threads, found)


def _opened(
    every: Iterator[Hit | Missed | Untold],
    ranked: Ranked,
    request: SearchRequest,
    threads: Mapping[UUID, Thread],
    found: SearchResult,
) -> SearchResult:
    """With what was found, checked: with a phrase all that may hold it is opened."""
    phrases = bool(request.query.phrases)
    hits, dropped, untold = list[Hit](), list[Missed](), 0
    for hit in every:
        if isinstance(hit, Hit):
            hits.append(hit)
        elif isinstance(hit, Untold):
            untold += hit
        else:
            dropped.append(hit)
        enough = len(hits) >= request.limit and not phrases
        if enough or len(hits) + len(dropped) >= OPENED:
            break
    looked = len(hits) + len(dropped) + untold
    lacking: tuple[str, ...] = ()
    if looked < ranked.total and (phrases or len(hits) < request.limit):
        lacking = ("phrases" if phrases else "matches",)
    total = len(hits) if phrases else ranked.total - len(dropped) - untold
    reason: Reason | None = found.reason
    if ranked.total and not hits:
        gone = "erased" in dropped and not phrases
        reason = "erased" if gone else "no_match"
    return replace(
        found,
        items=_marked(hits[: request.limit], request.where, threads),
        total=total,
        reason=reason,
        degraded=(*found.degraded, *lacking),
    )


def _marked(
    hits: Sequence[Hit], where: FactFilter | None, threads: Mapping[UUID, Thread]
) -> tuple[Hit, ...]:
    """The same, with what of their texts no longer holds.

    None without `where`, two queries where nothing was learnt from any, else six.
    """
    if where is None or not hits:
        return (*hits,)
    thread = threads[hits[0].thread]
    found = standing.list_marks(
        thread.subject,
        [(hit.thread, hit.seq) for hit in hits if hit.fact is None],
        at=where.valid_at,
        known_at=where.known_at,
    )
    places = [at for each in found.values() for mark in each for at in mark.places]
    opened = texts.opened(thread, [*dict.fromkeys(places)]) if places else {}

    def marked(hit: Hit) -> Hit:
        every = found.get((hit.thread, hit.seq), ())
        # What tells one may be erased meanwhile.
        there = [mark for mark in every if mark.is_told_by(opened)]
        return replace(hit, marked=marks.worded(there, opened))

    return tuple(map(marked, hits))


def _erased(index: Index, scope: Scope) -> list[Range]:
    """What forks of the lineage have erased of what they inherit. A query, or none."""
    marks = index.records[index.records["kind"] == index.names.index(ERASED)]
    caps = index.caps(scope.up_to)
    seen = marks[marks["seq"] <= caps[marks["thread"]]] if len(marks) else marks
    if not len(seen):
        return []
    places = [(index.threads[int(row["thread"])], int(row["seq"])) for row in seen]
    bodies = Event.objects.at_places(places).values_list("body", flat=True)
    events = map(RecordsErased.model_validate_json, bodies)
    return [each for event in events for each in event.ranges]
