from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from typing import Annotated, Literal, Self

from django.http import HttpRequest, HttpResponse
from ninja import Path
from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    Out,
    ThreadName,
    Time,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.samples import AT
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import render_answer
from memoryhub.api.http.reading import (
    GONE,
    get_agent_subject,
    get_agent_thread,
    get_seq,
)
from memoryhub.api.http.subject_routes import Place, SubjectRouter
from memoryhub.errors import InvalidError, NotFoundError, SeqUnknownError
from memoryhub.kernel.knowledge.derivation import Fact
from memoryhub.kernel.search import parsing
from memoryhub.kernel.search.parsing import Filters
from memoryhub.kernel.search.ranking import Cut, Order, Reason
from memoryhub.kernel.state.pages import Modality
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.search import searching
from memoryhub.queries.search.hit_exchanges import HitExchange, list_exchanges
from memoryhub.queries.search.hits import SearchHit
from memoryhub.queries.search.searching import KINDS, SearchRequest, SearchResult
from memoryhub.queries.threads import threads
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects

MOST_HITS = 50


def _check_query(text: str) -> str:
    """Check a query and the filters written in it."""
    if not text.strip():
        raise FieldRefusedError("value", allowed="1 to 1,000 characters")
    try:
        parsing.parse(text, kinds=KINDS)
    except InvalidError as refusal:
        raise FieldRefusedError(refusal.invalid_code, allowed=refusal.allowed) from None
    return text


def _check_kinds(kinds: list[str]) -> list[str]:
    if not set(kinds) <= {*KINDS}:
        raise FieldRefusedError("value", allowed=" | ".join(KINDS))
    return kinds


Query = Annotated[
    str,
    AfterValidator(_check_query),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": parsing.MOST_CHARACTERS,
            "description": 'Words, `"a phrase"`, `role:tool`, `type:…`, '
            "`kind:page`, `in:<thread>`, `from:` and `to:` a time, `turn:10..20`.",
        }
    ),
]
Kinds = Annotated[
    list[str],
    AfterValidator(_check_kinds),
    WithJsonSchema({"type": "array", "items": {"enum": [*KINDS]}}),
]
Hits = Annotated[
    int, build_range_check(1, MOST_HITS, code="limit"), build_range_schema(1, MOST_HITS)
]
Moment = Annotated[
    int,
    build_range_check(0, MAX_INTEGER, code="at"),
    build_range_schema(0, MAX_INTEGER),
]

_HIT = {
    "thread": "booking:204",
    "seq": 4,
    "kind": "message",
    "role": "user",
    "type": "chat.user",
    "at": AT,
    "turn": 1,
    "slot": 2,
    "page": "slot-2",
    "key": None,
    "score": 3.1,
    "excerpt": "My booking code is ZFA04Y.",
    "matches": [[19, 25]],
}
_FOUND = {"items": [_HIT], "total": 1, "reason": None, "degraded": []}


class SearchFields(In):
    query: Query
    kinds: Kinds = Field(default=[], description="Of which kinds; none given: of all.")
    order: Order = Field(
        "best", description="`first` and `newest` are by time, and want all words."
    )
    limit: Hits = Field(5, description="Hits at most.")
    from_: Time | None = Field(None, alias="from", description="Not before this.")
    to: Time | None = Field(None, description="Before this.")
    versions: bool = Field(default=False, description="Old versions of pages as well.")
    modality: Modality | None = Field(None, description="Pages of this kind only.")
    explain: bool = Field(default=False, description="Say what made the scores.")

    @model_validator(mode="after")
    def in_order(self) -> Self:
        if self.from_ and self.to and self.from_ > self.to:
            raise FieldRefusedError("time_range", allowed="from before to", loc=("to",))
        return self

    def to_request(self) -> SearchRequest:
        since, until = (
            None if each is None else parsing.to_microseconds(each)
            for each in (self.from_, self.to)
        )
        kinds = frozenset(self.kinds)
        return SearchRequest.parse(
            self.query,
            filters=Filters(kinds=kinds, since=since, until=until),
            order=self.order,
            limit=self.limit,
            versions=self.versions,
            modality=self.modality,
        )


class ThreadSearchIn(SearchFields, AsOf):
    model_config = build_example({"query": "zfa04y", "limit": 5})

    at_seq: Moment | None = Field(None, description="As of this event of the thread.")
    at_turn: Moment | None = Field(None, description="As of the last event of a turn.")


class RecallIn(SearchFields):
    model_config = build_example({"query": "seat by the window", "kinds": ["message"]})

    thread: ThreadName | None = Field(None, description="In this thread only.")
    exclude_thread: ThreadName | None = Field(None, description="Not in this thread.")
    valid_at: Time | None = Field(
        None, description="Facts that held then; absent: that hold now."
    )
    known_at: Time | None = Field(
        None, description="By what was known then; absent: by all that is known."
    )
    ended: bool = Field(default=False, description="Also facts that were over by then.")


class MatchedOut(Out):
    """A word of the query in a record."""

    term: str = Field(description="The word, or part of an identifier.")
    tf: float = Field(description="How often; other forms of it count half.")
    idf: float = Field(description="How rare it is where was searched.")
    exact: bool = Field(description="Whether it stands there as it was asked for.")


class FactToldOut(Out):
    """A found fact, by any of its assertions."""

    id: int = Field(description="Of `…/facts/{id}`.")
    valid_from: datetime
    valid_until: datetime | None = Field(
        description="Null: until something else is known."
    )
    confidence: float | None
    confirmations: int = Field(description="Assertions that say so.")


class ExchangePartOut(Out):
    seq: int
    slot: int
    erased: bool
    text: str | None = Field(description="Of its beginning 1,000 characters at most.")
    cut: bool = Field(description="Whether it is longer.")


class HitExchangeOut(Out):
    """Question of the user, and last answer of the assistant."""

    question: ExchangePartOut = Field(description="The user's message.")
    answer: ExchangePartOut | None = Field(description="Null: there is none yet.")


class HitOut(Out):
    """A found record."""

    thread: str = Field(
        description="Whose journal has it; of a fork maybe an ancestor."
    )
    seq: int
    kind: str = Field(description=f"One of {', '.join(KINDS)}.")
    role: str | None
    type: str | None = Field(description="Of the message or page.")
    at: datetime = Field(description="When its agent says it was, else when recorded.")
    turn: int
    slot: int | None = Field(description="Of a message: its index.")
    page: str | None = Field(description="The page that can be fetched.")
    key: str | None
    score: float = Field(description="BM25; comparable within one answer.")
    excerpt: str = Field(description="At most 240 characters around the best match.")
    matches: list[tuple[int, int]] = Field(
        description="Where matches stand in the excerpt: start, end, in characters."
    )
    fact: FactToldOut | None = Field(
        None, description="By recall of a fact; the excerpt is a sentence about it."
    )
    marks: str | None = Field(
        None,
        description="What no longer holds of what was learnt from it, as "
        "`[no longer so: since 2026-05-02 lives_in Paris]` or `[withdrawn]`.",
    )
    exchange: HitExchangeOut | None = Field(None, description="By recall of a message.")
    why: list[MatchedOut] | None = Field(None, description="With `explain` only.")


class CutTermOut(Out):
    """A word of the query that did not count."""

    term: str = Field(description="The word.")
    reason: Cut = Field(description="Why it did not count.")
    records: int = Field(description="In how many records it stands.")


class FoundOut(Out):
    model_config = build_example(_FOUND)

    items: list[HitOut]
    total: int = Field(description="Matches in all.")
    reason: Reason | None = Field(description="Why there are none.")
    degraded: list[Literal["indexing", "phrases", "matches", "vectors"]] = Field(
        description="What it lacks: not all is indexed, or looked at."
    )
    warnings: list[Literal["anonymous_bucket"]] | None = Field(
        None, description="As of threads: nobody is named here, but elsewhere."
    )
    searched: int | None = Field(None, description="With `explain`: records looked at.")
    cut: list[CutTermOut] | None = Field(None, description="With `explain` only.")


router = SubjectRouter(tags=["search"])


@router.route(
    "POST",
    "/threads/{thread}/search",
    needs=auth.READ,
    out=FoundOut,
    refusals=[*GONE, SeqUnknownError],
)
def search(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadSearchIn
) -> HttpResponse:
    """Search a thread and what it inherits, now or as of an event.

    A message or page comes with the present state of facts learnt from it; as of an
    event, the state known then. A POST, so that the words stay out of URLs and logs; it
    writes nothing. An empty list has a `reason`.
    """
    agent = auth.get_caller(request)
    thread_row = get_agent_thread(agent, thread)
    wanted = replace(body.to_request(), where=FactFilter(valid_at=clock.now()))
    found = searching.search_thread(thread_row, wanted, seq=get_seq(thread_row, body))
    return _render_found(agent, found, body)


@router.route_both("POST", "/recall", needs=auth.READ, out=FoundOut, refusals=GONE)
def recall(request: HttpRequest, place: Place, body: RecallIn) -> HttpResponse:
    """Search the memory of a subject, in all of its threads.

    Valid facts are found, each once. A message or page comes with the present state of
    facts learnt from it. Recall of nobody warns in a project with named people.
    """
    agent = auth.get_caller(request)
    subject = get_agent_subject(agent, place)
    wanted = body.to_request()
    filters = wanted.query.filters
    # The query names threads as the key names them: translate to stored names.
    named = {
        stored
        for name in filters.threads
        for stored in threads.list_stored_names(name, bound=agent.bound)
    }
    query = replace(wanted.query, filters=replace(filters, threads=frozenset(named)))
    where = FactFilter(
        valid_at=body.valid_at or clock.now(),
        known_at=body.known_at,
        ended=body.ended,
    )
    found = searching.recall(
        subject,
        replace(wanted, query=query, where=where),
        threads=_get_thread_names(agent, subject, body.thread),
        exclude=_list_names(agent, body.exclude_thread),
    )
    mixed = subject.anonymous and subjects.has_named(agent.project)
    exchanges = list_exchanges(subject, found.items)
    return _render_found(agent, found, body, mixed=mixed, exchanges=exchanges)


def _get_thread_names(
    agent: Agent, subject: Subject, name: str | None
) -> list[str] | None:
    """Return the stored name of the thread, or None. Raises NotFoundError for another
    subject's thread."""
    if name is None:
        return None
    found = threads.get_thread(agent.project, name, bound=agent.bound)
    if found.subject_id != subject.id:
        raise NotFoundError
    return [found.name]


def _list_names(agent: Agent, name: str | None) -> Sequence[str]:
    return () if name is None else threads.list_stored_names(name, bound=agent.bound)


def _render_found(
    agent: Agent,
    found: SearchResult,
    body: SearchFields,
    *,
    mixed: bool = False,
    exchanges: Sequence[HitExchange | None] = (),
) -> HttpResponse:
    items = [
        _build_hit(agent, hit, exchange, explain=body.explain)
        for hit, exchange in zip_longest(found.items, exchanges)
    ]
    out = FoundOut(
        items=items,
        total=found.total,
        reason=found.reason,
        degraded=[*found.degraded],  # type: ignore[list-item]  # closed words
        warnings=["anonymous_bucket"] if mixed else None,
        searched=found.searched if body.explain else None,
        cut=[CutTermOut.model_validate(each) for each in found.cut]
        if body.explain
        else None,
    )
    return render_answer(out)


def _build_fact(fact: Fact) -> FactToldOut:
    return FactToldOut(
        id=fact.seq,
        valid_from=fact.begin,
        valid_until=fact.end,
        confidence=fact.confidence,
        confirmations=fact.confirmations,
    )


def _build_hit(
    agent: Agent, hit: SearchHit, exchange: HitExchange | None, *, explain: bool
) -> HitOut:
    return HitOut.from_record(
        hit,
        thread=agent.get_thread_name(hit.thread_name),
        excerpt=hit.excerpt.text,
        matches=hit.excerpt.matches,
        fact=None if hit.fact is None else _build_fact(hit.fact),
        marks=hit.marks or None,
        exchange=exchange and HitExchangeOut.model_validate(exchange),
        why=[MatchedOut.model_validate(each) for each in hit.why] if explain else None,
    )
