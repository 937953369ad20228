"""Closures: records, with all that was made of them, and of that. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, F, Max, Min, OuterRef, Q

from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasure_counts import Range

#: Ranges that one statement looks through.
_AT_ONCE = 200


def list_before(
    subject: Subject, before: datetime, *, taught: bool = True
) -> list[Range]:
    """List every record of the subject from before a time, whatever its kind.

    One query over its events, for time never goes back in a thread. What is still on
    its way in is nobody's memory yet, and its import ends as soon as anything goes.
    """
    threads = Thread.objects.filter(subject=subject)
    living = threads.exclude(status__in=(Thread.Status.ERASED, Thread.Status.IMPORTING))
    rows = Event.objects.filter(thread__in=living, at__lt=before)
    lasts = rows.values_list("thread").annotate(last=Max("seq"))
    ranges = [(thread, 1, last) for thread, last in lasts]
    return closure(ranges, taught=taught)


def list_record(thread: Thread, seq: int, *, taught: bool = True) -> list[Range]:
    return closure([(thread.id, seq, seq)], taught=taught)


def list_derived(thread: Thread, *, taught: bool = True) -> list[Range]:
    """List what was made of a thread's records and stands in others."""
    found = closure([(thread.id, 1, thread.head_seq)], taught=taught)
    return [each for each in found if each[0] != thread.id]


def closure(ranges: Iterable[Range], *, taught: bool = True) -> list[Range]:
    """Return these records and whatever was made of any of them; sorted, joined.

    Unless what they `taught` goes too, what home threads made of them stays. Two
    queries for every generation and two hundred ranges.
    """
    reached = joined(ranges)
    while True:
        made = [(thread, seq, seq) for thread, seq in _made_of(reached, taught=taught)]
        wider = joined([*reached, *made])
        if wider == reached:
            return reached
        reached = wider


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Return the same records, each once, by thread and seq."""
    found: list[Range] = []
    for thread, first, last in sorted(ranges):
        if found and found[-1][0] == thread and first <= found[-1][2] + 1:
            found[-1] = (thread, found[-1][1], max(found[-1][2], last))
        else:
            found.append((thread, first, last))
    return found


def count_unlinked(ranges: Sequence[Range]) -> int:
    """Count records with content that agents wrote in the same turns and that stay.

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


def _made_of(ranges: Sequence[Range], *, taught: bool) -> Iterator[tuple[UUID, int]]:
    for start in range(0, len(ranges), _AT_ONCE):
        wanted = Q(pk__in=[])
        for thread, first, last in ranges[start : start + _AT_ONCE]:
            wanted |= Q(thread=thread, source_seq__range=(first, last))
        rows = Derivation.objects.filter(wanted)
        if not taught:
            homes = Thread.objects.filter(id=OuterRef("derived_thread"), home=True)
            # What it made of its own records goes with those.
            rows = rows.exclude(Exists(homes), ~Q(thread=F("derived_thread")))
        yield from rows.values_list("derived_thread", "derived_seq")
