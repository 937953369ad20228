"""Verification of contexts: each record reassembles to the bytes that were sent.

Never writes. The check builds each context anew and hashes the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet

from memoryhub.errors import Refusal
from memoryhub.kernel.packing import packers
from memoryhub.kernel.state.pages import Location
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import contexts

#: Recorded contexts read at once.
CHUNK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCheck:
    """Result of checking one recorded context."""

    turn: int
    #: Whether a part was erased, so that the context cannot be reassembled.
    erased: bool = False
    #: A closed word when the context differs from its record.
    wrong: str | None = None


def count_contexts(threads: QuerySet[Thread]) -> int:
    """Count the contexts recorded in these threads. One query."""
    turns = Turn.objects.filter(thread__in=threads.order_by().values("id"))
    return turns.filter(packed_seq__isnull=False).count()


def iter_checks(thread: Thread) -> Iterator[ContextCheck]:
    """Yield a check of each context that the thread itself recorded, oldest first.

    `thread` comes with its subject. Two queries a hundred contexts, one for each
    uncached text, and one for each context with erased parts.
    """
    after = 0
    while rows := _list_turns(thread, after):
        seqs = [row.packed_seq or 0 for row in rows]
        events = Event.objects.filter(thread=thread, seq__in=seqs)
        stored = {event.seq: event for event in events}
        for row in rows:
            yield _check_context(thread, row.n, stored.get(row.packed_seq or 0))
        after = rows[-1].n


def _list_turns(thread: Thread, after: int) -> list[Turn]:
    rows = Turn.objects.filter(thread=thread, packed_seq__isnull=False, n__gt=after)
    return list(rows.order_by("n")[:CHUNK])


def _check_context(thread: Thread, turn: int, stored: Event | None) -> ContextCheck:
    if stored is None:
        return ContextCheck(turn=turn, wrong="record")
    try:
        found = contexts.open_record(thread, stored, home=thread)
        if found.event.turn != turn:
            return ContextCheck(turn=turn, wrong="turn")
        if found.record.packer not in packers.PACKERS:
            return ContextCheck(turn=turn, wrong="packer")
        whole = contexts.reassemble_request(thread, found)
    except Refusal as refusal:
        return ContextCheck(turn=turn, wrong=refusal.code)
    if whole.verified:
        return ContextCheck(turn=turn)
    places = [Location(thread.id, stored.seq, 0)]
    if whole.request is None:
        places += contexts.list_places(found.record, thread.id)
    elif found.sha256 is not None:
        return ContextCheck(turn=turn, wrong="sha256")
    if _has_erased(places):
        return ContextCheck(turn=turn, erased=True)
    return ContextCheck(turn=turn, wrong="missing")


def _has_erased(places: list[Location]) -> bool:
    """Tell whether an erasure took the payload of any of these places. One query."""
    seqs: dict[UUID, list[int]] = {}
    for place in places:
        seqs.setdefault(place.thread, []).append(place.seq)
    where = Q()
    for thread, in_thread in seqs.items():
        where |= Q(thread_id=thread, seq__in=in_thread)
    return Event.objects.filter(where, erased_by__isnull=False).exists()
