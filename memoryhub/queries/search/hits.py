"""Hits: records that were found, opened and checked, with what shows why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

from memoryhub.journal.log import log
from memoryhub.kernel.knowledge.derivation import Fact
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.levels import marks
from memoryhub.kernel.levels.marks import MarkWords
from memoryhub.kernel.search import contents, excerpts
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.kernel.search.index import Index
from memoryhub.kernel.search.parsing import SearchQuery
from memoryhub.kernel.search.ranking import Matched, Ranked
from memoryhub.kernel.search.segments import ROLES
from memoryhub.kernel.state.bodies import Event as Body
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.knowledge.standing import FoundFact

assert FactAsserted.searched is not None
FACT = FactAsserted.searched.kind
#: Records opened in one statement.
CHUNK = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Why what the index has is no hit: its text is gone, or it is not what was asked for.
Missed = Literal["erased", "no_match"]


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
) -> Iterator[Hit | Missed]:
    """Yield what was found in order, or why it is no hit: for lack of a phrase, too.

    With `where` facts are told, each once, as far as it lets them by. `threads` come
    with their subject. One query for 100, and those of facts among them.
    """
    seen = set[tuple[bytes, int]]()
    for start in range(0, len(ranked.places), CHUNK):
        places = [int(each) for each in ranked.places[start : start + CHUNK]]
        rows = _rows(index, places)
        facts = _facts(rows.values(), threads, where)
        for at, place in enumerate(places, start):
            thread = threads[index.threads[int(index.records["thread"][place])]]
            row = rows.get((thread.id, int(index.records["seq"][place])))
            text = None if row is None else _text(thread, row)
            if row is None or text is None:
                yield "erased"
                continue
            if not _has_phrases(text[1], query):
                yield "no_match"
                continue
            hit = _hit(index, ranked, at, thread, text)
            if where is None or hit.kind != FACT:
                yield hit
                continue
            fact = facts.get(row.seq)
            yield (
                "no_match"
                if fact is None or fact.key in seen
                else _telling(hit, fact.fact, text[1])
            )
            seen |= {fact.key} if fact else set()


def _rows(index: Index, places: Sequence[int]) -> dict[tuple[UUID, int], Event]:
    at = [
        (index.threads[int(row["thread"])], int(row["seq"]))
        for row in index.records[places]
    ]
    found = Event.objects.at_places(at).filter(payload__isnull=False)
    return {(row.thread_id, row.seq): row for row in found.defer("chain")}


def _text(thread: Thread, row: Event) -> tuple[Body, str] | None:
    event = log.recorded(row).event
    payload = log.open_payload(thread.subject, thread.project_id, row)
    text = None if payload is None else contents.text_of(event, payload)
    return None if text is None else (event, text)


def _facts(
    rows: Iterable[Event], threads: Mapping[UUID, Thread], where: FactFilter | None
) -> Mapping[int, FoundFact]:
    """By seq in the home thread, the facts of those assertions that `where` lets by."""
    found = [row for row in rows if row.type == FactAsserted.event_type]
    if where is None or not found:
        return {}
    home = threads[found[0].thread_id]
    return standing.facts_of(home, [row.seq for row in found], where)


def _telling(hit: Hit, fact: Fact, text: str) -> Hit:
    """The same as a sentence about the fact."""
    sentence = marks.sentence(text, fact.begin, fact.end, fact.confidence)
    wanted = [each.term for each in hit.why]
    return replace(hit, fact=fact, excerpt=excerpts.excerpt(sentence, wanted))


def _has_phrases(text: str, query: SearchQuery) -> bool:
    if not query.phrases:
        return True
    words = excerpts.spoken(text)
    return all(excerpts.holds_phrase(words, phrase) for phrase in query.phrases)


def _hit(
    index: Index, ranked: Ranked, at: int, thread: Thread, opened: tuple[Body, str]
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
        excerpt=excerpts.excerpt(text, [each.term for each in why]),
    )
