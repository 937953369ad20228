"""Totals: record counts of each subject, by kind, stored beside the counted rows.

Written in the transaction of the rows that they count, last of all: on PostgreSQL two
processes that write for one subject wait for each other from there to the commit. See
decision 35.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Length

from memoryhub.journal.rows.rows import EventTableRow
from memoryhub.journal.rows.statements import Add
from memoryhub.models.cold import ColdObject
from memoryhub.models.events import Event, ThreadTerms
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import SHOWN, Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.totals import Total
from memoryhub.models.working_memory import Key

PAGES, DELETED_PAGES, KEYS = "pages", "pages:deleted", "keys"
#: Messages of the user that still exist; each begins an episode.
EPISODES = "episodes"
BEGINS: Final = Q(SHOWN, role="user")
_THREADS, _LEVELS = "threads:", "levels:"
#: Statuses that count for nobody: a thread about to be made, and one being imported.
_NOBODYS: Final = ("new", Thread.Status.IMPORTING.value)


def drop_terms(thread: UUID, first: int, last: int) -> None:
    """Delete the search segments that overlap these records. One statement."""
    ThreadTerms.objects.filter(
        thread_id=thread, first_seq__lte=last, upto_seq__gte=first
    ).delete()


class Figures(NamedTuple):
    """Counts of one kind, or a difference to them."""

    records: int = 0
    sealed: int = 0
    erased: int = 0
    bytes: int = 0

    def add(self, other: Figures) -> Figures:
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


class TotalsChanges:
    """Differences that some writes make to the totals, by thread and kind."""

    def __init__(self) -> None:
        self.of: dict[UUID, Totals] = {}

    def add(self, thread: UUID, kind: str, figures: Figures) -> None:
        _add_figures(self.of.setdefault(thread, {}), kind, figures)

    def count_rows(self, thread: UUID, kind: str, number: int) -> None:
        """Count `number` rows more, or fewer."""
        if number:
            self.add(thread, kind, Figures(records=number))

    def count_page(self, thread: UUID, deleted_seq: int | None, number: int) -> None:
        self.count_rows(thread, PAGES if deleted_seq is None else DELETED_PAGES, number)

    def count_levels(self, thread: UUID, level: int, number: int) -> None:
        self.count_rows(thread, f"{_LEVELS}{level}", number)

    def count_events(self, rows: Iterable[EventTableRow]) -> None:
        """Count new events; an imported event may have lost its content elsewhere."""
        for row in rows:
            sealed, size = (0, 0) if row.payload is None else (1, len(row.payload))
            gone = 0 if row.erased_by is None else 1
            self.add(row.thread_id, row.type, Figures(1, sealed, gone, size))

    def count_status(self, thread: UUID, *, before: str, after: str) -> None:
        if before != after:
            for status, number in ((before, -1), (after, 1)):
                if status not in _NOBODYS:
                    self.count_rows(thread, f"{_THREADS}{status}", number)

    def take_payloads(self, rows: QuerySet[Event], thread: UUID, *, by: int) -> None:
        """Erase the contents of these events of a thread; none is erased yet."""
        kinds = rows.order_by().values("type")
        counted = kinds.annotate(
            gone=Count("seq"), sealed=Count("payload"), size=Sum(Length("payload"))
        )
        found = [*counted.values_list("type", "gone", "sealed", "size")]
        for kind, gone, sealed, size in found:
            taken = Figures(sealed=-sealed, erased=gone, bytes=-(size or 0))
            self.add(thread, kind, taken)
        if found:
            # Search segments made from these events go with them.
            ends = rows.order_by().aggregate(first=Min("seq"), last=Max("seq"))
            drop_terms(thread, ends["first"], ends["last"])
            rows.update(payload=None, erased_by=by)
            # Objects in cold storage may hold these payloads.
            objects = ColdObject.objects.filter(thread_id=thread)
            objects.exclude(state=ColdObject.State.WRITING).update(
                state=ColdObject.State.DOOMED
            )

    def deduct(self, thread: UUID, rows: QuerySet[Any]) -> None:
        """Deduct pages, levels, slots or keys of a thread before they are deleted."""
        if rows.model is Page:
            for deleted_seq in rows.values_list("deleted_seq", flat=True):
                self.count_page(thread, deleted_seq, -1)
        elif rows.model is PageLevel:
            for level in rows.values_list("level", flat=True):
                self.count_levels(thread, level, -1)
        elif rows.model is Slot:
            self.count_rows(thread, EPISODES, -rows.filter(BEGINS).count())
        else:
            assert rows.model is Key
            self.count_rows(thread, KEYS, -rows.count())

    def write(self, subjects: Mapping[UUID, UUID]) -> None:
        """Add the differences to the totals of the threads' subjects. One call."""
        summed: dict[UUID, Totals] = {}
        for thread, kinds in self.of.items():
            of_subject = summed.setdefault(subjects[thread], {})
            for kind, figures in kinds.items():
                _add_figures(of_subject, kind, figures)
        _ADD.write(
            [
                TotalRow(subject, kind, *figures)
                for subject, kinds in summed.items()
                for kind, figures in kinds.items()
            ]
        )


def _add_figures(kinds: Totals, kind: str, figures: Figures) -> None:
    before = kinds.get(kind)
    kinds[kind] = figures if before is None else before.add(figures)


_ADD = Add(Total, TotalRow, key=("subject_id", "kind"), figures=Figures._fields)


def get(subject: UUID) -> Totals:
    """Return the non-empty totals of a subject. One query."""
    rows = Total.objects.filter(subject_id=subject).order_by("kind")
    found = rows.values_list("kind", *Figures._fields)
    return {kind: Figures(*each) for kind, *each in found if any(each)}


def count_records(totals: Mapping[str, Figures], kind: str) -> int:
    """Return the number of records of one kind."""
    return totals.get(kind, NOTHING).records


def count_statuses(totals: Mapping[str, Figures]) -> dict[str, int]:
    """Return the number of threads by status."""
    return _count_by_prefix(totals, _THREADS)


def count_levels(totals: Mapping[str, Figures]) -> dict[int, int]:
    """Return the number of texts of pages by level."""
    found = _count_by_prefix(totals, _LEVELS)
    return {int(level): number for level, number in found.items()}


def filter_types(totals: Mapping[str, Figures]) -> Totals:
    """Return the totals of events by type."""
    return {kind: each for kind, each in totals.items() if "." in kind}


def _count_by_prefix(totals: Mapping[str, Figures], prefix: str) -> dict[str, int]:
    return {
        kind.removeprefix(prefix): each.records
        for kind, each in totals.items()
        if kind.startswith(prefix)
    }


def count(subject: UUID) -> Totals:
    """Count a subject's totals from all rows. Six queries, one without threads."""
    own = Thread.objects.filter(subject_id=subject)
    own = own.exclude(status=Thread.Status.IMPORTING)
    by_status = [*own.order_by().values_list("status").annotate(Count("id"))]
    found = count_threads(Q(thread__in=own.values("id"))) if by_status else {}
    found |= {f"{_THREADS}{word}": Figures(records=n) for word, n in by_status}
    return dict(sorted(found.items()))


def count_threads(of: Q) -> Totals:
    """Count the rows of some threads, without the threads themselves.

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
    """Replace the stored totals of a subject by counted ones.

    Locks the subject, so that nobody writes for it meanwhile. An erased subject has no
    totals.
    """
    with transaction.atomic():
        owner = Subject.objects.select_for_update().get(id=subject)
        counted = {} if owner.state == Subject.State.ERASED else count(subject)
        Total.objects.filter(subject_id=subject).delete()
        _ADD.write([TotalRow(subject, kind, *each) for kind, each in counted.items()])


def add_threads(
    subject: UUID, found: Iterable[Totals], statuses: Iterable[str]
) -> None:
    """Add threads that nobody saw until now: their counted rows, and the threads."""
    changes = TotalsChanges()
    for part in found:
        for kind, figures in part.items():
            changes.add(subject, kind, figures)
    for status in statuses:
        changes.count_status(subject, before=_NOBODYS[0], after=status)
    changes.write({subject: subject})
