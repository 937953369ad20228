"""Closures: records with all records derived from them, transitively. Never writes.

See decision 29.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Max, Min, Q, QuerySet

from memoryhub.journal import texts
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasure_counts import Range

#: Ranges per statement.
_AT_ONCE = 200


class OldMessages(NamedTuple):
    """Messages recorded later that happened before a time, as far as was looked."""

    #: Seq up to which each thread's messages were opened.
    looked: Mapping[UUID, int]
    places: Sequence[tuple[UUID, int]]


NOT_LOOKED = OldMessages({}, ())


def list_recorded(
    subject: Subject, before: datetime, *, thread: Thread | None = None
) -> list[Range]:
    """List the subject's records, or those of one thread, recorded before a time.

    One query: time never goes back in a thread. Leaves out threads that are being
    imported, since an erasure ends their import.
    """
    rows = Event.objects.filter(thread__in=_select_living(subject, thread))
    lasts = rows.filter(at__lt=before).values_list("thread").annotate(last=Max("seq"))
    return [(of, 1, last) for of, last in lasts]


def find_old_messages(
    subject: Subject,
    before: datetime,
    recorded: Sequence[Range],
    *,
    thread: Thread | None = None,
    earlier: OldMessages = NOT_LOOKED,
) -> OldMessages:
    """Find messages recorded later whose agents say they happened before a time.

    The agent's time is sealed: each message beyond `recorded` and `earlier` is opened.
    A query for 200 threads with such messages.
    """
    lasts = {of: last for of, _, last in recorded}
    heads = dict(_select_living(subject, thread).values_list("id", "head_seq"))
    start = {of: max(lasts.get(of, 0), earlier.looked.get(of, 0)) for of in heads}
    late = [of for of in sorted(heads) if heads[of] > start[of]]
    found = [*earlier.places]
    for first in range(0, len(late), _AT_ONCE):
        wanted = Q()
        for of in late[first : first + _AT_ONCE]:
            wanted |= Q(thread=of, seq__gt=start[of], seq__lte=heads[of])
        rows = Event.objects.filter(wanted, type=SlotAppended.event_type)
        for row in rows.only("thread_id", "seq", "payload").iterator():
            payload = texts.open_payload(subject, subject.project_id, row)
            at = parse_agent_time(payload or {})
            if at is not None and at < before:
                found.append((row.thread_id, row.seq))
    return OldMessages(heads, found)


def _select_living(subject: Subject, thread: Thread | None) -> QuerySet[Thread]:
    rows = Thread.objects.filter(subject=subject)
    if thread is not None:
        rows = rows.filter(id=thread.id)
    return rows.exclude(status__in=(Thread.Status.ERASED, Thread.Status.IMPORTING))


def list_record(thread: Thread, seq: int, *, taught: bool = True) -> list[Range]:
    return compute_closure([(thread.id, seq, seq)], taught=taught)


def list_derived(thread: Thread, *, taught: bool = True) -> list[Range]:
    """List records of other threads that were derived from the thread's records."""
    found = compute_closure([(thread.id, 1, thread.head_seq)], taught=taught)
    return [each for each in found if each[0] != thread.id]


def compute_closure(ranges: Iterable[Range], *, taught: bool = True) -> list[Range]:
    """Return these records and all records derived from them; sorted, joined.

    Without `taught`, home threads keep what they learnt from the records. Two queries
    for every generation and two hundred ranges.
    """
    reached = join_ranges(ranges)
    while True:
        made = [
            (thread, seq, seq) for thread, seq in _iter_derived(reached, taught=taught)
        ]
        wider = join_ranges([*reached, *made])
        if wider == reached:
            return reached
        reached = wider


def join_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Join overlapping and adjacent ranges, sorted by thread and seq."""
    found: list[Range] = []
    for thread, first, last in sorted(ranges):
        if found and found[-1][0] == thread and first <= found[-1][2] + 1:
            found[-1] = (thread, found[-1][1], max(found[-1][2], last))
        else:
            found.append((thread, first, last))
    return found


def count_unlinked(ranges: Sequence[Range]) -> int:
    """Count records with content that stay, though agents wrote them in the same turns.

    Counts records without a named source: the agent may have written them from erased
    content. Four queries a range.
    """
    return sum(
        _count_thread_unlinked(
            thread, [each[1:] for each in ranges if each[0] == thread]
        )
        for thread in sorted({each[0] for each in ranges})
    )


def _count_thread_unlinked(thread: UUID, spans: Sequence[tuple[int, int]]) -> int:
    turns = Turn.objects.filter(thread=thread)
    beside = Q(pk__in=[])
    for first, last in spans:
        began = turns.filter(seq__lte=first).aggregate(seq=Max("seq"))["seq"] or 1
        ended = turns.filter(seq__gt=last).aggregate(seq=Min("seq"))["seq"]
        within = Q(seq__gte=began)
        beside |= within & Q(seq__lt=ended) if ended else within
    rows = Event.objects.filter(beside, thread=thread, payload__isnull=False)
    for first, last in spans:
        rows = rows.exclude(seq__range=(first, last))
    named = Derivation.objects.filter(derived_thread=thread)
    rows = rows.exclude(seq__in=named.values("derived_seq"))
    return rows.filter(actor__startswith="agent:").count()


def _iter_derived(
    ranges: Sequence[Range], *, taught: bool
) -> Iterator[tuple[UUID, int]]:
    for start in range(0, len(ranges), _AT_ONCE):
        wanted = Q(pk__in=[])
        for thread, first, last in ranges[start : start + _AT_ONCE]:
            wanted |= Q(thread=thread, source_seq__range=(first, last))
        rows = Derivation.objects.filter(wanted)
        found = [*rows.values_list("derived_thread", "derived_seq", "thread_id")]
        homes = set[UUID]()
        if not taught:
            threads = Thread.objects.filter(id__in={thread for thread, _, _ in found})
            homes = {*threads.filter(home=True).values_list("id", flat=True)}
        for derived, seq, source in found:
            # Records that a home thread derived from its own records go too.
            if derived not in homes or derived == source:
                yield derived, seq
