"""Search hits: indexed records, opened and checked, with their matches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain, islice, repeat
from typing import Literal, NamedTuple
from uuid import UUID

from memoryhub.journal import texts
from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.rows import EventTableRow
from memoryhub.kernel.context import marks
from memoryhub.kernel.context.marks import MarkWords
from memoryhub.kernel.knowledge.derivation import Fact
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.search import contents, excerpts, terms
from memoryhub.kernel.search.arrays import np
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.kernel.search.index import Index
from memoryhub.kernel.search.parsing import SearchQuery
from memoryhub.kernel.search.ranking import MatchedTerm, Ranking
from memoryhub.kernel.search.segments import ROLES
from memoryhub.kernel.search.terms import Stem
from memoryhub.kernel.state.bodies import EventBody as Body
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import Modality, build_slot_page_id
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.knowledge.facts import FactFilter

assert FactAsserted.searched is not None
FACT = FactAsserted.searched.kind
#: Maximum number of records opened in one statement.
CHUNK = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Why an indexed record is no hit: erased since, or the phrase does not occur.
DropReason = Literal["erased", "no_match"]
#: Number of records left unopened: their facts are filtered out or already shown.
UnopenedCount = int
#: Whether a text holds a query's words side by side, or all of them, or some.
Closeness = Literal["phrase", "words", "some"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A matching record: its place, its score and an excerpt with the matches."""

    #: The thread whose journal has the record: in a fork possibly an ancestor.
    thread: UUID
    thread_name: str
    seq: int
    kind: str
    role: str | None
    type: str | None
    #: The record's own time as given by its agent, else its recorded time.
    at: datetime
    turn: int
    #: Slot index; None unless the record is a message.
    slot: int | None
    #: The page to fetch; None unless the record is a message or a page version.
    page: str | None
    #: Key of the record's value; None for other records.
    key: str | None
    score: float
    why: tuple[MatchedTerm, ...]
    excerpt: Excerpt
    #: Hash by this process of the whole text, its case and white space aside.
    text_hash: int
    #: The fact of an assertion, where a search shows facts.
    fact: Fact | None = None
    #: Marks of the statements in the text that no longer hold.
    marked: tuple[MarkWords, ...] = ()
    #: How close the text is to the query's words; None unless the search tells it.
    closeness: Closeness | None = None

    @property
    def marks(self) -> str:
        """Return the marks in words, as shown beside the text."""
        return marks.join_marks(self.marked)

    def find_closeness(self, query: SearchQuery) -> Closeness:
        """Find how much of a query's words the text holds; a phrase as its excerpt."""
        spoken = [term for word in query.words for term in word.spoken]
        if not spoken or excerpts.has_phrase(
            excerpts.split_words(self.excerpt.text), spoken
        ):
            return "phrase"
        held = {each.term for each in self.why}
        wanted = [{*word.terms} - terms.STOP for word in query.words]
        return "words" if all(held & word for word in wanted if word) else "some"


def iter_hits(
    index: Index,
    ranked: Ranking,
    query: SearchQuery,
    threads: Mapping[UUID, Thread],
    where: FactFilter | None = None,
    *,
    modality: Modality | None = None,
    expected: int = CHUNK,
) -> Iterator[SearchHit | DropReason | UnopenedCount]:
    """Yield hits in order, or the reason why an indexed record is no hit.

    With `where`, the iterator shows each fact that passes the filter once and opens no
    record of another fact. `modality` drops records of other pages. `threads` come
    with their subject. One query for the first `expected` records, one per 100 beyond,
    and the queries of facts.
    """
    shown = set[Fact]()
    # Cache the stems of words while this answer is built.
    stem = cache(terms.build_stemmer())
    places = _iter_places(index, ranked, threads, where, shown)
    chunks = chain([min(expected, CHUNK)], repeat(CHUNK))
    while batch := [*islice(places, next(chunks))]:
        unopened = [each for each in batch if isinstance(each, _Candidate)]
        rows = _list_rows(index, [each.place for each in unopened])
        for each in batch:
            if isinstance(each, UnopenedCount):
                yield each
                continue
            at, place, fact = each
            if fact in shown:
                yield 1
                continue
            thread = threads[index.threads[int(index.records["thread"][place])]]
            row = rows.get((thread.id, int(index.records["seq"][place])))
            text = None if row is None else _open_text(thread, row)
            if row is None or text is None:
                yield "erased"
                continue
            other = modality not in (None, contents.get_modality(text[0]))
            if other or not _has_phrases(text[1], query):
                yield "no_match"
                continue
            hit = _build_hit(index, ranked, at, thread, text, stem=stem)
            if fact is not None:
                shown.add(fact)
                hit = _add_fact(hit, fact, text[1], stem)
            yield hit


class _Candidate(NamedTuple):
    """A matching record that has not been opened."""

    #: The record's position in the ranking, and in the index.
    at: int
    place: int
    fact: Fact | None = None


def _iter_places(
    index: Index,
    ranked: Ranking,
    threads: Mapping[UUID, Thread],
    where: FactFilter | None,
    shown: Collection[Fact],
) -> Iterator[_Candidate | UnopenedCount]:
    """Yield matching records in order, with their facts.

    Facts are read ahead, twice as many each time. Timelines with a thousand old values
    take few queries, and a current value takes one.
    """
    found = index.records[ranked.places]
    places, seqs = ranked.places.tolist(), found["seq"].tolist()
    asserted = np.zeros(len(places), bool)
    if where is not None and FACT in index.names:
        asserted = found["kind"] == index.names.index(FACT)
    facts, ahead, untold = dict[int, Fact | None](), CHUNK, 0
    is_fact = asserted.tolist()
    for at, (place, seq) in enumerate(zip(places, seqs, strict=True)):
        fact = None
        if where is not None and is_fact[at]:
            if seq not in facts:
                home = threads[index.threads[int(found["thread"][at])]]
                coming = islice(np.flatnonzero(asserted[at:]), ahead)
                next_seqs = [seqs[at + int(n)] for n in coming]
                new = [each for each in next_seqs if each not in facts]
                facts |= standing.find_facts(home, new, where)
                ahead *= 2
            fact = facts[seq]
            # Most records are skipped if a fact had many values.
            if fact is None or fact in shown:
                untold += 1
                continue
        if untold:
            yield untold
            untold = 0
        yield _Candidate(at, place, fact)
    if untold:
        yield untold


def _list_rows(
    index: Index, places: Sequence[int]
) -> dict[tuple[UUID, int], EventTableRow]:
    seqs: dict[UUID, list[int]] = {}
    for row in index.records[places]:
        home = index.threads[int(row["thread"])]
        seqs.setdefault(home, []).append(int(row["seq"]))
    return {
        (row.thread_id, row.seq): row
        for row in statements.select_events_at(seqs)
        if row.payload is not None
    }


def _open_text(thread: Thread, row: EventTableRow) -> tuple[Body, str] | None:
    event = log.to_recorded(row).event
    payload = texts.open_payload(thread.subject, thread.project_id, row)
    text = None if payload is None else contents.build_text(event, payload)
    return None if text is None else (event, text)


def _add_fact(hit: SearchHit, fact: Fact, text: str, stem: Stem) -> SearchHit:
    """Return the hit with its fact and an excerpt of a sentence about the fact."""
    sentence = marks.render_sentence(text, fact.begin, fact.end, fact.confidence)
    wanted = [each.term for each in hit.why]
    return replace(
        hit, fact=fact, excerpt=excerpts.build_excerpt(sentence, wanted, stem)
    )


def _has_phrases(text: str, query: SearchQuery) -> bool:
    if not query.phrases:
        return True
    words = excerpts.split_words(text)
    return all(excerpts.has_phrase(words, phrase) for phrase in query.phrases)


def _build_hit(
    index: Index,
    ranked: Ranking,
    at: int,
    thread: Thread,
    opened: tuple[Body, str],
    *,
    stem: Stem,
) -> SearchHit:
    place, (event, text) = int(ranked.places[at]), opened
    record, why = index.records[place], ranked.list_matches(place)
    slot = event.index if isinstance(event, SlotAppended) else None
    page = index.names[int(record["page"])] or None
    return SearchHit(
        thread=thread.id,
        thread_name=thread.name,
        seq=int(record["seq"]),
        kind=index.names[int(record["kind"])],
        role=ROLES[int(record["role"])] or None,
        type=index.names[int(record["type"])] or None,
        at=_EPOCH + timedelta(microseconds=int(record["time"])),
        turn=int(record["turn"]),
        slot=slot,
        page=page if slot is None else build_slot_page_id(slot),
        key=getattr(event, "key", None),
        score=float(ranked.scores[at]),
        why=why,
        excerpt=excerpts.build_excerpt(text, [each.term for each in why], stem),
        text_hash=hash(" ".join(text.casefold().split())),
    )
