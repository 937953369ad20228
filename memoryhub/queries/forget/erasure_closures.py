"""Closures: records, with all that was made of them, and of that. Never writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db.models import Max, Min, Q

from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasure_counts import Range

Item = TypeVar("Item")
#: Ranges, or threads, that one statement looks through.
_AT_ONCE = 200


def list_before(subject: Subject, before: datetime) -> list[Range]:
    """Every record of the subject from before a time, whatever its kind.

    One query over its events, for time never goes back in a thread. What is still on
    its way in is nobody's memory yet, and its import ends as soon as anything goes.
    """
    threads = Thread.objects.filter(subject=subject)
    living = threads.exclude(status__in=(Thread.Status.ERASED, Thread.Status.IMPORTING))
    rows = Event.objects.filter(thread__in=living, at__lt=before)
    lasts = rows.values_list("thread").annotate(last=Max("seq"))
    return closure([(thread, 1, last) for thread, last in lasts])


def list_record(thread: Thread, seq: int) -> list[Range]:
    return closure([(thread.id, seq, seq)])


def list_derived(thread: Thread) -> list[Range]:
    """What was made of a thread's records and stands in others."""
    found = closure([(thread.id, 1, thread.head_seq)])
    return [each for each in found if each[0] != thread.id]


def closure(ranges: Iterable[Range]) -> list[Range]:
    """These records and whatever was made of any of them; sorted, joined.

    Two queries for every generation and two hundred ranges.
    """
    known = joined(ranges)
    while True:
        made = [(thread, seq, seq) for thread, seq in _made_of(known)]
        wider = joined([*known, *made])
        if wider == known:
            return known
        known = wider


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same records, each once, by thread and seq."""
    found: list[Range] = []
    for thread, first, last in sorted(ranges):
        if found and found[-1][0] == thread and first <= found[-1][2] + 1:
            found[-1] = (thread, found[-1][1], max(found[-1][2], last))
        else:
            found.append((thread, first, last))
    return found


def count_live_forks(threads: Collection[UUID]) -> int:
    """Threads that are not erased and were forked off these, or off such forks."""
    found: set[UUID] = set()
    parents = [*threads]
    while parents:
        rows = Thread.objects.exclude(status=Thread.Status.ERASED)
        forks = {
            fork
            for some in _batches(parents)
            for fork in rows.filter(parent__in=some).values_list("id", flat=True)
        }
        parents = [*(forks - found)]
        found |= forks
    return len(found - {*threads})


def count_unlinked(ranges: Sequence[Range]) -> int:
    """Records with content that agents wrote in the same turns and that stay.

    Whoever wrote them may have had what goes before their eyes, and named no source.
    Four queries a range.
    """
    return sum(
        _unlinked(thread, [each[1:] for each in ranges if each[0] == thread])
        for thread in sorted({each[0] for each in ranges})
    )


def _unlinked(thread: UUID, spans: Sequence[tuple[int, int]]) -> int:
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


def _made_of(ranges: Sequence[Range]) -> Iterator[tuple[UUID, int]]:
    for some in _batches(ranges):
        wanted = Q(pk__in=[])
        for thread, first, last in some:
            wanted |= Q(thread=thread, source_seq__range=(first, last))
        rows = Derivation.objects.filter(wanted)
        yield from rows.values_list("derived_thread", "derived_seq")


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]
