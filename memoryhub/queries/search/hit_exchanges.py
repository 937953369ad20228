"""Question and answer of the exchanges that search hits belong to. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery

from memoryhub.kernel.messages.words import render_content_words
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.queries.search.hits import SearchHit
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import get_rows_at

#: Most characters that a hit brings of a question, and of an answer.
MOST_CHARACTERS: Final = 1_000


class ExchangePart(NamedTuple):
    """A question or an answer beside a hit."""

    seq: int
    slot: int
    erased: bool
    #: Beginning of the text; None if erased.
    text: str | None
    #: Whether the text is longer.
    cut: bool


class HitExchange(NamedTuple):
    """Exchange of a hit: the user's message and the assistant's last one."""

    question: ExchangePart
    answer: ExchangePart | None


def list_exchanges(
    subject: Subject, hits: Sequence[SearchHit]
) -> list[HitExchange | None]:
    """List the exchange of each hit that is a message; None for other hits.

    None too for a message before the first question of its thread. Three queries.
    """
    found = Q()
    for hit in hits:
        if hit.slot is not None:
            found |= Q(thread_id=hit.thread, index=hit.slot)
    spans: dict[tuple[UUID, int], tuple[int, int | None]] = {}
    wanted = Q()
    for home, index, begin, answer in _list_spans(found) if found else ():
        if begin is not None:
            spans[home, index] = begin, answer
            both = [each for each in (begin, answer) if each is not None]
            wanted |= Q(thread_id=home, index__in=both)
    parts = _open_parts(subject, wanted) if spans else {}
    exchanges = list[HitExchange | None]()
    for hit in hits:
        begin, answer = spans.get((hit.thread, hit.slot or 0), (None, None))
        question = None if begin is None else parts.get((hit.thread, begin))
        reply = None if answer is None else parts.get((hit.thread, answer))
        if hit.slot is None or question is None:
            exchanges.append(None)
        else:
            exchanges.append(HitExchange(question, reply))
    return exchanges


def _list_spans(found: Q) -> list[tuple[UUID, int, int | None, int | None]]:
    """List thread, index, question and last answer of messages. One query."""
    there = Slot.objects.filter(thread=OuterRef("thread"), struck_seq=None)
    users = there.filter(role="user")
    begins = users.filter(index__lte=OuterRef("index")).order_by("-index")
    until = users.filter(index__gt=OuterRef("index")).order_by("index")
    spoken = there.filter(role="assistant", index__gt=OuterRef("begin"))
    before = spoken.filter(index__lt=OuterRef("until"))
    rows = Slot.objects.filter(found).annotate(
        begin=Subquery(begins.values("index")[:1]),
        until=Subquery(until.values("index")[:1]),
    )
    rows = rows.annotate(
        bounded=Subquery(before.order_by("-index").values("index")[:1]),
        newest=Subquery(spoken.order_by("-index").values("index")[:1]),
    )
    names = ("thread_id", "index", "begin", "until", "bounded", "newest")
    return [
        (home, index, begin, newest if until is None else bounded)
        for home, index, begin, until, bounded, newest in rows.values_list(*names)
    ]


def _open_parts(subject: Subject, wanted: Q) -> dict[tuple[UUID, int], ExchangePart]:
    """Open questions and answers, by thread and index. Two queries."""
    rows = [*Slot.objects.filter(wanted, struck_seq=None).select_related("thread")]
    events = get_rows_at([(row.thread_id, row.seq) for row in rows], content=True)
    parts = dict[tuple[UUID, int], ExchangePart]()
    for row in rows:
        stored = events.get((row.thread_id, row.seq))
        if stored is None:
            continue
        row.thread.subject = subject
        line = slots.build_line(row.thread, row, stored, content=True)
        words = "" if line.erased else render_content_words(line.content)
        if line.erased or words:
            parts[row.thread_id, row.index] = ExchangePart(
                seq=row.seq,
                slot=row.index,
                erased=line.erased,
                text=None if line.erased else words[:MOST_CHARACTERS],
                cut=len(words) > MOST_CHARACTERS,
            )
    return parts
