"""Totals: how much there is of each subject, by kind, kept beside what is counted.

Written in the transaction of the rows that they count, last of all: on PostgreSQL two
processes that write for one subject wait for each other from there to the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Length

from memoryhub.journal.rows.rows import EventRow
from memoryhub.journal.rows.statements import Add
from memoryhub.models.events import Event, ThreadTerms
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.totals import Total
from memoryhub.models.working_memory import Key

PAGES, DELETED_PAGES, KEYS = "pages", "pages:deleted", "keys"
#: What the user said and is still there, each with what followed.
EPISODES = "episodes"
BEGINS: Final = Q(role="user", erased=False)
_THREADS, _LEVELS = "threads:", "levels:"
#: Threads that are nobody's memory: one that is to be made, and one on its way in.
_NOBODYS: Final = ("new", Thread.Status.IMPORTING.value)


def drop_terms(thread: UUID, first: int, last: int) -> None:
    """Delete the segments that hold anything of these records. One statement."""
    ThreadTerms.objects.filter(
        thread_id=thread, first_seq__lte=last, upto_seq__gte=first
    ).delete()


class Figures(NamedTuple):
    """Of one kind, or what is added to it."""

    records: int = 0
    sealed: int = 0
    erased: int = 0
    bytes: int = 0

    def plus(self, other: Figures) -> Figures:
        return Figures(
            self.records + other.records,
            self.sealed + other.sealed,
            self.erased + other.erased,
            self.bytes + other.bytes,
        )


NOTHING: Final = Figures()
Totals = dict[str, Figures]


class TotalRow(NamedTuple):
    """A row of Total, in the order of its columns."""

    subject_id: UUID
    kind: str
    records: int
    sealed: int
    erased: int
    bytes: int


class Changes:
    """What some writes add and take, by thread and kind."""

    def __init__(self) -> None:
        self.of: dict[UUID, Totals] = {}

    def add(self, thread: UUID, kind: str, figures: Figures) -> None:
        _plus(self.of.setdefault(thread, {}), kind, figures)

    def rows(self, thread: UUID, kind: str, number: int) -> None:
        """Count so many rows more, or fewer."""
        if number:
            self.add(thread, kind, Figures(records=number))

    def page(self, thread: UUID, deleted_seq: int | None, number: int) -> None:
        self.rows(thread, PAGES if deleted_seq is None else DELETED_PAGES, number)

    def levels(self, thread: UUID, level: int, number: int) -> None:
        self.rows(thread, f"{_LEVELS}{level}", number)

    def events(self, rows: Iterable[EventRow]) -> None:
        """Count new events, which may have lost their contents elsewhere."""
        for row in rows:
            sealed, size = (0, 0) if row.payload is None else (1, len(row.payload))
            gone = 0 if row.erased_by is None else 1
            self.add(row.thread_id, row.type, Figures(1, sealed, gone, size))

    def status(self, thread: UUID, *, before: str, after: str) -> None:
        if before != after:
            for status, number in ((before, -1), (after, 1)):
                if status not in _NOBODYS:
                    self.rows(thread, f"{_THREADS}{status}", number)

    def take_payloads(self, rows: QuerySet[Event], thread: UUID, *, by: int) -> None:
        """Take the contents of these events of a thread, of which none is erased."""
        kinds = rows.order_by().values("type")
        counted = kinds.annotate(
            gone=Count("seq"), sealed=Count("payload"), size=Sum(Length("payload"))
        )
        found = [*counted.values_list("type", "gone", "sealed", "size")]
        for kind, gone, sealed, size in found:
            taken = Figures(sealed=-sealed, erased=gone, bytes=-(size or 0))
            self.add(thread, kind, taken)
        if found:
            # What was made of them to find them by goes with them.
            ends = rows.order_by().aggregate(first=Min("seq"), last=Max("seq"))
            drop_terms(thread, ends["first"], ends["last"])
            rows.update(payload=None, erased_by=by)

    def leave(self, thread: UUID, rows: QuerySet[Any]) -> None:
        """Deduct pages, levels, slots or keys of a thread that are about to go."""
        if rows.model is Page:
            for deleted_seq in rows.values_list("deleted_seq", flat=True):
                self.page(thread, deleted_seq, -1)
        elif rows.model is PageLevel:
            for level in rows.values_list("level", flat=True):
                self.levels(thread, level, -1)
        elif rows.model is Slot:
            self.rows(thread, EPISODES, -rows.filter(BEGINS).count())
        else:
            assert rows.model is Key
            self.rows(thread, KEYS, -rows.count())

    def write(self, subjects: Mapping[UUID, UUID]) -> None:
        """Add them to what is kept; `subjects` are those of the threads. One call."""
        summed: dict[UUID, Totals] = {}
        for thread, kinds in self.of.items():
            of_subject = summed.setdefault(subjects[thread], {})
            for kind, figures in kinds.items():
                _plus(of_subject, kind, figures)
        _ADD.rows(
            [
                TotalRow(subject, kind, *figures)
                for subject, kinds in summed.items()
                for kind, figures in kinds.items()
            ]
        )


def _plus(kinds: Totals, kind: str, figures: Figures) -> None:
    before = kinds.get(kind)
    kinds[kind] = figures if before is None else before.plus(figures)


_ADD = Add(Total, TotalRow, key=("subject_id", "kind"), figures=Figures._fields)


def get(subject: UUID) -> Totals:
    """Return the non-empty totals of a subject. One query."""
    rows = Total.objects.filter(subject_id=subject).order_by("kind")
    found = rows.values_list("kind", *Figures._fields)
    return {kind: Figures(*each) for kind, *each in found if any(each)}


def number(totals: Mapping[str, Figures], kind: str) -> int:
    """Return how many records there are of one kind."""
    return totals.get(kind, NOTHING).records


def statuses(totals: Mapping[str, Figures]) -> dict[str, int]:
    """Return threads by their status."""
    return _numbers(totals, _THREADS)


def levels(totals: Mapping[str, Figures]) -> dict[int, int]:
    """Return texts of pages by level."""
    found = _numbers(totals, _LEVELS)
    return {int(level): number for level, number in found.items()}


def types(totals: Mapping[str, Figures]) -> Totals:
    """Return events by their type."""
    return {kind: each for kind, each in totals.items() if "." in kind}


def _numbers(totals: Mapping[str, Figures], prefix: str) -> dict[str, int]:
    return {
        kind.removeprefix(prefix): each.records
        for kind, each in totals.items()
        if kind.startswith(prefix)
    }


def count(subject: UUID) -> Totals:
    """Count the same: looks at all there is. Six queries, one without threads."""
    own = Thread.objects.filter(subject_id=subject)
    own = own.exclude(status=Thread.Status.IMPORTING)
    by_status = [*own.order_by().values_list("status").annotate(Count("id"))]
    found = count_threads(Q(thread__in=own.values("id"))) if by_status else {}
    found |= {f"{_THREADS}{word}": Figures(records=n) for word, n in by_status}
    return dict(sorted(found.items()))


def count_threads(of: Q) -> Totals:
    """Count the rows of some threads, these themselves left out.

    Five queries.
    """
    kinds = Event.objects.filter(of).order_by().values("type")
    counted = kinds.annotate(
        records=Count("seq"),
        sealed=Count("payload"),
        erased=Count("erased_by"),
        size=Sum(Length("payload")),
    )
    found = {
        row["type"]: Figures(
            row["records"], row["sealed"], row["erased"], row["size"] or 0
        )
        for row in counted
    }
    gone = Q(deleted_seq__isnull=False)
    by_level = PageLevel.objects.filter(of).order_by().values_list("level")
    numbers = {
        **Page.objects.filter(of).aggregate(
            **{PAGES: Count("page_id", ~gone), DELETED_PAGES: Count("page_id", gone)}
        ),
        KEYS: Key.objects.filter(of).count(),
        EPISODES: Slot.objects.filter(of, BEGINS).count(),
        **{f"{_LEVELS}{n}": number for n, number in by_level.annotate(Count("seq"))},
    }
    return found | {kind: Figures(n) for kind, n in numbers.items() if n}


def recount(subject: UUID) -> None:
    """Put what is counted in the place of what is kept.

    Nobody writes for it meanwhile. Of one who is erased nothing is kept.
    """
    with transaction.atomic():
        owner = Subject.objects.select_for_update().get(id=subject)
        counted = {} if owner.state == Subject.State.ERASED else count(subject)
        Total.objects.filter(subject_id=subject).delete()
        _ADD.rows([TotalRow(subject, kind, *each) for kind, each in counted.items()])


def arrive(subject: UUID, found: Iterable[Totals], statuses: Iterable[str]) -> None:
    """Add threads that nobody saw until now: what was counted of them, and they."""
    changes = Changes()
    for part in found:
        for kind, figures in part.items():
            changes.add(subject, kind, figures)
    for status in statuses:
        changes.status(subject, before=_NOBODYS[0], after=status)
    changes.write({subject: subject})
