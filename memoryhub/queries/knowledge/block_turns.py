"""Turns that carried a block, in any thread of the block's subject. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from uuid import UUID

import orjson
from django.db.models import Count, Q, QuerySet

from memoryhub.errors import BadCursorError
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope

#: Places of requests that one query reads.
CHUNK = 200
#: Newest turns of a thread that `list_recent` looks at.
LOOKED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryingTurn:
    """A turn whose request had a block in its head."""

    thread: str
    turn: int
    #: When the request was recorded.
    at: datetime


def count_turns(home: Thread, seqs: Sequence[int]) -> dict[int, int]:
    """Count the requests that carried the texts of these events. One query."""
    rows = _select_carriers(home, seqs).order_by().values("source_seq")
    counted = rows.annotate(turns=Count("derived_seq"))
    return dict(counted.values_list("source_seq", "turns"))


def list_turns(
    home: Thread, seq: int, *, after: str | None = None, limit: int = 20
) -> ListBatch[CarryingTurn]:
    """List the turns that carried the text of an event, newest first.

    Four queries, and one more for each CHUNK of those turns after the first; linear in
    those turns. Raises BadCursorError.
    """
    listing = ListScope(
        name="carriers", project=home.project_id, filters=[home.id, seq]
    )
    where = _filter_after_cursor(listing, after) if after else Q()
    places = _select_carriers(home, [seq]).values_list("derived_thread", "derived_seq")
    left = [*places.order_by("derived_thread", "derived_seq")]
    every: list[tuple[datetime, UUID, int]] = []
    for begin in range(0, len(left), CHUNK):
        rows = Event.objects.filter_places(left[begin : begin + CHUNK])
        rows = rows.filter(where, type=TurnPacked.event_type)
        found = rows.order_by("-at", "-thread", "-seq")
        columns = found.values_list("at", "thread_id", "seq")[: limit + 1]
        every = nlargest(limit + 1, [*every, *columns])
    batch = every[:limit]
    turns = _read_turn_numbers([(thread, n) for _, thread, n in batch])
    names = dict(
        Thread.objects.filter(id__in={thread for _, thread, _ in batch}).values_list(
            "id", "name"
        )
    )
    at, thread, n = batch[-1] if batch else (None, None, None)
    return ListBatch(
        items=tuple(
            CarryingTurn(thread=names[thread], turn=turns[thread, n], at=at)
            for at, thread, n in batch
        ),
        next=listing.seal([at.isoformat(), thread.hex, n])
        if at and thread and len(every) > limit
        else None,
    )


def list_recent(
    home: Thread, threads: Sequence[Thread], *, limit: int
) -> list[CarryingTurn]:
    """List the newest turns of these threads that carried a block, newest first.

    Looks at the LOOKED newest turns of each thread. Three queries.
    """
    late, packed = Q(), Q()
    for each in threads:
        late |= Q(thread=each, n__gt=each.turn_count - LOOKED)
    turns = Turn.objects.filter(late, packed_seq__isnull=False) if late else []
    numbers = {(turn.thread_id, turn.packed_seq): turn.n for turn in turns}
    for thread, seq in numbers:
        packed |= Q(derived_thread=thread, derived_seq=seq)
    carried = Derivation.objects.filter(packed, thread=home) if packed else None
    places = carried and {*carried.values_list("derived_thread", "derived_seq")}
    if not places:
        return []
    names = {each.id: each.name for each in threads}
    events = Event.objects.filter_places([*places]).order_by("-at", "-thread", "-seq")
    return [
        CarryingTurn(thread=names[thread], turn=numbers[thread, seq], at=at)
        for thread, seq, at in events.values_list("thread_id", "seq", "at")[:limit]
    ]


def _select_carriers(home: Thread, seqs: Sequence[int]) -> QuerySet[Derivation]:
    rows = Derivation.objects.filter(thread=home, source_seq__in=seqs)
    return rows.exclude(derived_thread=home.id)


def _filter_after_cursor(listing: ListScope, after: str) -> Q:
    try:
        at, thread, n = listing.open(after)
        since, last = datetime.fromisoformat(at), UUID(thread)
    except (TypeError, ValueError):
        raise BadCursorError from None
    same = Q(at=since, thread_id=last, seq__lt=n)
    return Q(at__lt=since) | Q(at=since, thread_id__lt=last) | same


def _read_turn_numbers(
    places: Sequence[tuple[UUID, int]],
) -> dict[tuple[UUID, int], int]:
    """Return each recorded request's turn, by its place. Opens no content."""
    bodies = Event.objects.filter_places(places).values_list("thread_id", "seq", "body")
    return {(thread, seq): orjson.loads(body)["turn"] for thread, seq, body in bodies}
