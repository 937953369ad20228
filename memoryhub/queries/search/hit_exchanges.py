"""Question and answer of the exchanges that search hits belong to. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Q

from memoryhub.journal.rows import statements
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.threads import exchanges
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
    found = [(hit.thread, hit.seq) for hit in hits if hit.slot is not None]
    spans, wanted = map_exchange_seqs(found), Q()
    for (home, _), span in spans.items():
        both = [seq for seq in span if seq is not None]
        wanted |= Q(thread_id=home, seq__in=both)
    parts = _open_parts(subject, wanted) if spans else {}
    listed = list[HitExchange | None]()
    for hit in hits:
        begin, answer = spans.get((hit.thread, hit.seq)) or (None, None)
        question = None if begin is None else parts.get((hit.thread, begin))
        reply = None if answer is None else parts.get((hit.thread, answer))
        if question is None:
            listed.append(None)
        else:
            listed.append(HitExchange(question, reply))
    return listed


def map_exchange_seqs(
    places: Iterable[tuple[UUID, int]],
) -> dict[tuple[UUID, int], tuple[int, int | None]]:
    """Map messages by thread and seq to the seqs of their question and last answer.

    A message before the first question of its thread is left out; struck messages do
    not count, erased messages do. One query, or none without places.
    """
    seqs = dict[UUID, list[int]]()
    for home, seq in places:
        seqs.setdefault(home, []).append(seq)
    rows = statements.select_exchanges(seqs)
    return {
        (home, seq): (begin, answer)
        for home, seq, begin, answer in rows
        if begin is not None
    }


def _open_parts(subject: Subject, wanted: Q) -> dict[tuple[UUID, int], ExchangePart]:
    """Open questions and answers, by thread and seq. Two queries.

    Leaves out an assistant's message that only calls tools: that answers nothing yet.
    """
    rows = [*Slot.objects.filter(wanted, struck_seq=None).select_related("thread")]
    events = get_rows_at([(row.thread_id, row.seq) for row in rows], content=True)
    parts = dict[tuple[UUID, int], ExchangePart]()
    for row in rows:
        stored = events.get((row.thread_id, row.seq))
        if stored is None:
            continue
        row.thread.subject = subject
        line = slots.build_line(row.thread, row, stored, content=True)
        calls = row.role == "assistant" and not exchanges.has_words(line.content)
        words = "" if line.erased or calls else render_content_words(line.content)
        if line.erased or words:
            parts[row.thread_id, row.seq] = ExchangePart(
                seq=row.seq,
                slot=row.index,
                erased=line.erased,
                text=None if line.erased else words[:MOST_CHARACTERS],
                cut=len(words) > MOST_CHARACTERS,
            )
    return parts
