"""Hits: records that were found, opened and checked, with what shows why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain, islice, repeat
from typing import Literal, NamedTuple
from uuid import UUID

from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.rows import EventRow
from memoryhub.kernel.knowledge.derivation import Fact
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.levels import marks
from memoryhub.kernel.levels.marks import MarkWords
from memoryhub.kernel.search import contents, excerpts, terms
from memoryhub.kernel.search.arrays import np
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.kernel.search.index import Index
from memoryhub.kernel.search.parsing import SearchQuery
from memoryhub.kernel.search.ranking import Matched, Ranked
from memoryhub.kernel.search.segments import ROLES
from memoryhub.kernel.search.terms import Stem
from memoryhub.kernel.state.bodies import Event as Body
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.knowledge.standing import FactKey, FoundFact

assert FactAsserted.searched is not None
FACT = FactAsserted.searched.kind
#: Records opened in one statement.
CHUNK = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Why an indexed record is no hit: erased since, or the phrase does not occur.
Missed = Literal["erased", "no_match"]
#: So many records were left unopened: their facts do not hold, or are told already.
Untold = int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record that was found, where it lies, and the part of it that says why."""

    #: Whose journal has it: in a fork this may be an ancestor.
    thread: UUID
    thread_name: str
    seq: int
    kind: str
    role: str | None
    type: str | None
    #: When it was: as its agent says, else when it was recorded.
    at: datetime
    turn: int
    #: Of a message.
    slot: int | None
    #: Of a message or a version of a page: the page that can be fetched.
    page: str | None
    #: Of a value.
    key: str | None
    score: float
    why: tuple[Matched, ...]
    excerpt: Excerpt
    #: Of an assertion, where facts are told: the fact that it is of.
    fact: Fact | None = None
    #: What of it no longer holds.
    marked: tuple[MarkWords, ...] = ()

    @property
    def marks(self) -> str:
        """What of it no longer holds, as it stands beside it."""
        return marks.joined(self.marked)


def iter_hits(
    index: Index,
    ranked: Ranked,
    query: SearchQuery,
    threads: Mapping[UUID, Thread],
    where: FactFilter | None = None,
    *,
    expected: int = CHUNK,
) -> Iterator[Hit | Missed | Untold]:
    """Yield what was found in order, or why it is no hit: for lack of a phrase, too.

    With `where` facts are told, each once, as far as it lets them by; no other is
    opened. `threads` come with their subject. One query for the first `expected`, for
    every 100 beyond, and those of facts.
    """
    shown = set[FactKey]()
    # Words that were read are remembered for as long as the answer is being made.
    stem = cache(terms.stemmer())
    places = _iter_places(index, ranked, threads, where, shown)
    chunks = chain([min(expected, CHUNK)], repeat(CHUNK))
    while batch := [*islice(places, next(chunks))]:
        unopened = [each for each in batch if isinstance(each, _Candidate)]
        rows = _list_rows(index, [each.place for each in unopened])
        for each in batch:
            if isinstance(each, Untold):
                yield each
                continue
            at, place, fact = each
            if fact and fact.key in shown:
                yield 1
                continue
            thread = threads[index.threads[int(index.records["thread"][place])]]
            row = rows.get((thread.id, int(index.records["seq"][place])))
            text = None if row is None else _open_text(thread, row)
            if row is None or text is None:
                yield "erased"
                continue
            if not _has_phrases(text[1], query):
                yield "no_match"
                continue
            hit = _hit(index, ranked, at, thread, text, stem=stem)
            if fact is not None:
                shown.add(fact.key)
                hit = _telling(hit, fact.fact, text[1], stem)
            yield hit


class _Candidate(NamedTuple):
    """A record that was found, before it is opened."""

    #: Its number in the order, and in the index.
    at: int
    place: int
    fact: FoundFact | None = None


def _iter_places(
    index: Index,
    ranked: Ranked,
    threads: Mapping[UUID, Thread],
    where: FactFilter | None,
    shown: Collection[FactKey],
) -> Iterator[_Candidate | Untold]:
    """Yield what was found in order, with its fact.

    Facts are asked for ahead, more the more of them are not told: timelines with a
    thousand old values take few queries, and a current value takes one.
    """
    found = index.records[ranked.places]
    places, seqs = ranked.places.tolist(), found["seq"].tolist()
    asserted = np.zeros(len(places), bool)
    if where is not None and FACT in index.names:
        asserted = found["kind"] == index.names.index(FACT)
    facts, ahead, untold = dict[int, FoundFact | None](), CHUNK, 0
    is_fact = asserted.tolist()
    for at, (place, seq) in enumerate(zip(places, seqs, strict=True)):
        fact = None
        if where is not None and is_fact[at]:
            if seq not in facts:
                home = threads[index.threads[int(found["thread"][at])]]
                coming = islice(np.flatnonzero(asserted[at:]), ahead)
                next_seqs = [seqs[at + int(n)] for n in coming]
                new = [each for each in next_seqs if each not in facts]
                facts |= standing.facts_of(home, new, where)
                ahead *= 2
            fact = facts[seq]
            # Most are, where a fact had many values.
            if fact is None or fact.key in shown:
                untold += 1
                continue
        if untold:
            yield untold
            untold = 0
        yield _Candidate(at, place, fact)
    if untold:
        yield untold


def _list_rows(index: Index, places: Sequence[int]) -> dict[tuple[UUID, int], EventRow]:
    seqs: dict[UUID, list[int]] = {}
    for row in index.records[places]:
        home = index.threads[int(row["thread"])]
        seqs.setdefault(home, []).append(int(row["seq"]))
    return {
        (row.thread_id, row.seq): row
        for row in statements.select_events_at(seqs)
        if row.payload is not None
    }


def _open_text(thread: Thread, row: EventRow) -> tuple[Body, str] | None:
    event = log.recorded(row).event
    payload = log.open_payload(thread.subject, thread.project_id, row)
    text = None if payload is None else contents.text_of(event, payload)
    return None if text is None else (event, text)


def _telling(hit: Hit, fact: Fact, text: str, stem: Stem) -> Hit:
    """The same as a sentence about the fact."""
    sentence = marks.sentence(text, fact.begin, fact.end, fact.confidence)
    wanted = [each.term for each in hit.why]
    return replace(hit, fact=fact, excerpt=excerpts.excerpt(sentence, wanted, stem))


def _has_phrases(text: str, query: SearchQuery) -> bool:
    if not query.phrases:
        return True
    words = excerpts.spoken(text)
    return all(excerpts.holds_phrase(words, phrase) for phrase in query.phrases)


def _hit(
    index: Index,
    ranked: Ranked,
    at: int,
    thread: Thread,
    opened: tuple[Body, str],
    *,
    stem: Stem,
) -> Hit:
    place, (event, text) = int(ranked.places[at]), opened
    record, why = index.records[place], ranked.why(place)
    slot = event.index if isinstance(event, SlotAppended) else None
    page = index.names[int(record["page"])] or None
    return Hit(
        thread=thread.id,
        thread_name=thread.name,
        seq=int(record["seq"]),
        kind=index.names[int(record["kind"])],
        role=ROLES[int(record["role"])] or None,
        type=index.names[int(record["type"])] or None,
        at=_EPOCH + timedelta(microseconds=int(record["time"])),
        turn=int(record["turn"]),
        slot=slot,
        page=page if slot is None else slot_page_id(slot),
        key=getattr(event, "key", None),
        score=float(ranked.scores[at]),
        why=why,
        excerpt=excerpts.excerpt(text, [each.term for each in why], stem),
    )
