"""Verification of contexts: each reassembles to the bytes that were handed out.

Never writes, and takes no text's word for it: what is hashed is put together anew.
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

#: Records read at once.
CHUNK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One recorded context, looked at."""

    turn: int
    #: A part of it was erased, so that it can't be put together any more.
    erased: bool = False
    #: A closed word when it is not as it was recorded.
    wrong: str | None = None


def total(threads: QuerySet[Thread]) -> int:
    """Count the contexts recorded in these threads. One query."""
    turns = Turn.objects.filter(thread__in=threads.order_by().values("id"))
    return turns.filter(packed_seq__isnull=False).count()


def iter_checked(thread: Thread) -> Iterator[Checked]:
    """Yield each context that the thread has recorded itself, oldest first.

    `thread` comes with its subject. Two queries a hundred, one each for what no cache
    holds, and one for each that has erased parts.
    """
    after = 0
    while rows := _turns(thread, after):
        seqs = [row.packed_seq or 0 for row in rows]
        events = Event.objects.filter(thread=thread, seq__in=seqs)
        stored = {event.seq: event for event in events}
        for row in rows:
            yield _checked(thread, row.n, stored.get(row.packed_seq or 0))
        after = rows[-1].n


def _turns(thread: Thread, after: int) -> list[Turn]:
    rows = Turn.objects.filter(thread=thread, packed_seq__isnull=False, n__gt=after)
    return list(rows.order_by("n")[:CHUNK])


def _checked(thread: Thread, turn: int, stored: Event | None) -> Checked:
    if stored is None:
        return Checked(turn=turn, wrong="record")
    try:
        found = contexts.opened_record(thread, stored, home=thread)
        if found.event.turn != turn:
            return Checked(turn=turn, wrong="turn")
        if found.record.packer not in packers.PACKERS:
            return Checked(turn=turn, wrong="packer")
        whole = contexts.reassemble(thread, found)
    except Refusal as refusal:
        return Checked(turn=turn, wrong=refusal.code)
    if whole.verified:
        return Checked(turn=turn)
    places = [Location(thread.id, stored.seq, 0)]
    if whole.request is None:
        places += contexts.record_places(found.record, thread.id)
    elif found.sha256 is not None:
        return Checked(turn=turn, wrong="sha256")
    if _erased(places):
        return Checked(turn=turn, erased=True)
    return Checked(turn=turn, wrong="missing")


def _erased(places: list[Location]) -> bool:
    """Whether any of these was lawfully purged. One query."""
    seqs: dict[UUID, list[int]] = {}
    for place in places:
        seqs.setdefault(place.thread, []).append(place.seq)
    where = Q()
    for thread, in_thread in seqs.items():
        where |= Q(thread_id=thread, seq__in=in_thread)
    return Event.objects.filter(where, erased_by__isnull=False).exists()
