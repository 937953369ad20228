"""Search of a thread as of any event, or of a subject's threads. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from memoryhub.journal import texts
from memoryhub.kernel.context import marks
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.search import parsing, ranking
from memoryhub.kernel.search.arrays import np
from memoryhub.kernel.search.contents import OBSERVATION
from memoryhub.kernel.search.index import Index
from memoryhub.kernel.search.parsing import Filters, SearchQuery
from memoryhub.kernel.search.ranking import CutTerm, Order, Ranking, Reason, SearchScope
from memoryhub.kernel.search.segments import ERASED, STRUCK
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.erased import resolve_places
from memoryhub.kernel.state.page_events import SlotStruck
from memoryhub.kernel.state.pages import BLOCK, Modality
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.search import indexes
from memoryhub.queries.search.hits import (
    CHUNK,
    DropReason,
    SearchHit,
    UnopenedCount,
    iter_hits,
)
from memoryhub.queries.threads import forks

#: Kinds of searchable records, as events declare them.
_DECLARED = (event.searched.kind for event in TYPES.values() if event.searched)
KINDS = (*dict.fromkeys(_DECLARED), BLOCK, OBSERVATION)
#: Kinds of records that have a page and can be fetched.
FETCHED = frozenset({"message", "page", OBSERVATION})
#: Maximum number of records opened for one answer to a phrase search.
OPENED = 1_000
#: Copies after which the best distinct texts are looked for no further.
COPIES = 100
#: Maximum number of matches ranked where facts are shown: most may be old values.
ORDERED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search: query, order, limit, filters. Raises InvalidError for a bad query."""

    query: SearchQuery
    order: Order = "best"
    limit: int = 5
    #: Whether old versions of pages are searched too.
    versions: bool = False
    #: Modality of the pages to find; None: of any, and records that are no pages.
    modality: Modality | None = None
    #: Whether to open few records where many are not indexed yet.
    hasty: bool = False
    #: Instants for marks on texts that no longer hold, and in recall the filter of
    #: facts. None: assertions are found as recorded, and no text is marked.
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
        modality: Modality | None = None,
        can_exclude: bool = False,
    ) -> SearchRequest:
        """Parse a query; `filters` narrow the query's own filters.

        A person `can_exclude` words by `not:word`.

        Raises InvalidError for a query that is too long, or whose `from` is after its
        `to`.
        """
        query = parsing.parse(text, kinds=KINDS, can_exclude=can_exclude)
        if filters is not None:
            query = replace(query, filters=query.filters.narrow(filters))
        return cls(
            query=query,
            order=order,
            limit=limit,
            versions=versions,
            modality=modality,
        )

    @property
    def needs_texts(self) -> bool:
        """Tell whether only the opened records say which of them match."""
        return bool(self.query.phrases) or self.modality is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Hits of a search, and why records were not considered."""

    items: tuple[SearchHit, ...] = ()
    #: Total number of matches.
    total: int = 0
    #: Number of records searched.
    searched: int = 0
    #: Reason for an empty result.
    reason: Reason | None = None
    #: Deficits of the answer: `indexing` while some records are not indexed yet,
    #: `phrases` when not all candidates of a phrase were opened, `matches` when
    #: not all matches were checked, and there are too few hits or a modality is asked.
    degraded: tuple[str, ...] = ()
    #: Words of the query that were ignored.
    cut: tuple[CutTerm, ...] = field(default=())


class TextPlace(NamedTuple):
    """Place of a matching text."""

    thread: UUID
    seq: int
    #: Whether the text is in the thread's own history.
    own: bool


class RelatedPlaces(NamedTuple):
    """Places of the texts most related to a text, best first, and what was searched."""

    places: Iterator[TextPlace]
    scope: SearchScope


def search_thread(
    thread: Thread,
    request: SearchRequest,
    *,
    seq: int | None = None,
    without: Sequence[Range] = (),
) -> SearchResult:
    """Search a thread and its inherited records, now or as of an event.

    Records of the ranges `without` are left out, as if never written. As of an event,
    texts are marked by what was known and valid at the event's time, and no fact is
    shown. `thread` comes with its subject. Five queries where no thread moved, and
    those of marks.
    """
    rows, up_to = _list_history(thread, seq)
    if request.where is not None and seq is not None:
        request = replace(request, where=_build_filter_at(thread, seq))
    scope = SearchScope(up_to=up_to, lineage=True, versions=request.versions)
    return _search_index(rows, {row.id: row for row in rows}, request, scope, without)


def _build_filter_at(thread: Thread, seq: int) -> FactFilter:
    """Build the filter of facts known at an event. One query."""
    events = Event.objects.filter(thread_id=thread.id, seq__lte=seq).order_by("-seq")
    at = events.values_list("at", flat=True).first() or thread.created_at
    return FactFilter(valid_at=at, known_at=at)


def find_places(
    thread: Thread, text: str, *, seq: int, everywhere: bool
) -> RelatedPlaces:
    """Find places of the texts most related to a text, best first, as of an event.

    Messages and pages, up to 5,000, in the thread and its ancestors, or with
    `everywhere` in its subject's threads. No text is opened: the caller checks that a
    text still exists. `thread` comes with its subject. Five queries where no thread
    moved.
    """
    rows, up_to = _list_history(thread, seq)
    scope = SearchScope(up_to=up_to, lineage=True)
    if everywhere:
        others = [row for row in _list_threads(thread.subject) if row.id not in up_to]
        rows, scope = (
            [*rows, *others],
            SearchScope(up_to={**{row.id: row.head_seq for row in others}, **up_to}),
        )
    index = indexes.catch_up(rows, eldest=_get_eldest(scope)).index
    scope = replace(scope, gone=resolve_places(_list_gone(index, scope)).spans)
    words = ranking.select_rarest(index, parsing.list_words(text), parsing.MOST_TERMS)
    query = SearchQuery(words=words, filters=Filters(kinds=FETCHED))
    found = index.records[ranking.rank(index, query, scope, "best").places]
    homes = ((index.threads[int(each["thread"])], int(each["seq"])) for each in found)
    places = (TextPlace(home, at, home in up_to) for home, at in homes)
    return RelatedPlaces(places, scope)


def _list_history(
    thread: Thread, seq: int | None
) -> tuple[list[Thread], dict[UUID, int]]:
    """Return the thread with its ancestors, and the last visible seq of each."""
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
    """Search all threads of a subject, or those with the given stored names.

    Four queries where no thread moved; linear in the subject's threads.
    """
    wanted = request.query.filters.threads
    named: set[str] | None = None
    if threads is not None or wanted:
        named = {*(threads or wanted)} & {*(wanted or threads or ())}
    found = _list_threads(subject, named=named, exclude=exclude)
    scope = SearchScope(
        up_to={row.id: row.head_seq for row in found}, versions=request.versions
    )
    return _search_index(found, {row.id: row for row in found}, request, scope)


def _get_eldest(scope: SearchScope) -> UUID | None:
    """Return the root thread of a history; None for a search over all threads."""
    return next(iter(scope.up_to)) if scope.lineage else None


def _list_threads(
    subject: Subject, *, named: set[str] | None = None, exclude: Sequence[str] = ()
) -> list[Thread]:
    """List the subject's threads, newest first."""
    rows = Thread.objects.filter(project=subject.project_id, subject=subject)
    rows = rows.exclude(status__in=(Thread.Status.ERASED, Thread.Status.IMPORTING))
    rows = rows if named is None else rows.filter(name__in=named)
    rows = rows.exclude(name__in=[*exclude]) if exclude else rows
    found = list(rows.order_by("-listed_at", "id"))
    for row in found:
        row.subject = subject
    return found


def _search_index(
    rows: Sequence[Thread],
    threads: Mapping[UUID, Thread],
    request: SearchRequest,
    scope: SearchScope,
    without: Sequence[Range] = (),
) -> SearchResult:
    caught = indexes.catch_up(rows, eldest=_get_eldest(scope), hasty=request.hasty)
    index = caught.index
    gone = [*_list_gone(index, scope), *without]
    scope = replace(scope, gone=resolve_places(gone).spans)
    # A thread's journal shows facts as they were asserted.
    facts = None if scope.lineage else request.where
    most = ranking.MOST if facts is None else ORDERED
    ranked = ranking.rank(index, request.query, scope, request.order, most)
    degraded = () if caught.complete else ("indexing",)
    found = SearchResult(
        searched=ranked.ranged, reason=ranked.reason, degraded=degraded, cut=ranked.cut
    )
    # Where all candidates are opened, read them in as few statements as possible.
    expected = CHUNK if request.needs_texts else request.limit
    every = iter_hits(
        index,
        ranked,
        request.query,
        threads,
        facts,
        modality=request.modality,
        expected=expected,
    )
    return _open_hits(every, ranked, request, threads, found)


def _open_hits(
    every: Iterator[SearchHit | DropReason | UnopenedCount],
    ranked: Ranking,
    request: SearchRequest,
    threads: Mapping[UUID, Thread],
    found: SearchResult,
) -> SearchResult:
    """Return the result with checked hits, older copies of a hit's text last.

    A question that was asked often must not push its answer out, and what was said
    again holds as it was said last. A search for phrases or for a modality opens all
    candidates.
    """
    opens_all = request.needs_texts
    hits, dropped, untold = list[SearchHit](), list[DropReason](), 0
    copies, places = list[SearchHit](), dict[int, int]()
    for hit in every:
        if isinstance(hit, SearchHit):
            at = places.setdefault(hit.text_hash, len(hits))
            if at == len(hits) or request.order != "best":
                hits.append(hit)
            else:
                older, hits[at] = sorted((hit, hits[at]), key=lambda each: each.at)
                copies.append(older)
        elif isinstance(hit, UnopenedCount):
            untold += hit
        else:
            dropped.append(hit)
        enough = len(hits) >= request.limit or len(copies) >= COPIES
        opened = len(hits) + len(copies) + len(dropped)
        if (enough and not opens_all) or opened >= OPENED:
            break
    hits += copies
    looked = len(hits) + len(dropped) + untold
    lacking: tuple[str, ...] = ()
    if looked < ranked.total and (opens_all or len(hits) < request.limit):
        lacking = ("phrases" if request.query.phrases else "matches",)
    total = len(hits) if opens_all else ranked.total - len(dropped) - untold
    reason: Reason | None = found.reason
    if ranked.total and not hits:
        gone = "erased" in dropped and not opens_all
        reason = "erased" if gone else "no_match"
    return replace(
        found,
        items=_mark_hits(hits[: request.limit], request.where, threads),
        total=total,
        reason=reason,
        degraded=(*found.degraded, *lacking),
    )


def _mark_hits(
    hits: Sequence[SearchHit], where: FactFilter | None, threads: Mapping[UUID, Thread]
) -> tuple[SearchHit, ...]:
    """Mark the statements in the hits' texts that no longer hold.

    No query without `where`, two where no fact was learnt from these texts, else six.
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
    opened = texts.open_texts(thread, [*dict.fromkeys(places)]) if places else {}

    def mark_hit(hit: SearchHit) -> SearchHit:
        every = found.get((hit.thread, hit.seq), ())
        # A text that a mark quotes may have been erased meanwhile.
        there = [mark for mark in every if mark.is_told_by(opened)]
        return replace(hit, marked=marks.word_marks(there, opened))

    return tuple(map(mark_hit, hits))


def _list_gone(index: Index, scope: SearchScope) -> list[Range]:
    """List ranges of struck messages, and of inherited records that forks erased.

    What a fork erased counts in a search of its history alone. One query, or none.
    """
    kinds = [index.names.index(STRUCK)]
    if scope.lineage:
        kinds.append(index.names.index(ERASED))
    marks = index.records[np.isin(index.records["kind"], kinds)]
    caps = index.build_caps(scope.up_to)
    seen = marks[marks["seq"] <= caps[marks["thread"]]] if len(marks) else marks
    if not len(seen):
        return []
    places = [(index.threads[int(row["thread"])], int(row["seq"])) for row in seen]
    rows = Event.objects.filter_places(places).values_list("thread", "type", "body")
    found = list[Range]()
    for thread, type_, body in rows:
        if type_ == SlotStruck.event_type:
            seq = SlotStruck.model_validate_json(body).slot_seq
            found.append((thread, seq, seq))
        else:
            found += RecordsErased.model_validate_json(body).ranges
    return found
