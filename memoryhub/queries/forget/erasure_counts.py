"""Counts of the rows that an erasure takes, by place. Never writes.

The places follow from the privacy that models declare, so that a new table is counted
at once. Before the fence the counts are the plan; after it, the rows still to go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from memoryhub.models.erasures import Erasure
from memoryhub.models.pages import Page
from memoryhub.models.privacy import Fate, Privacy, Reference, list_declared_models
from memoryhub.models.slots import Slot

#: A thread, and the first and last seq of a range of its records.
Range = tuple[UUID, int, int]
Counts = dict[str, int]

#: Ranges per statement.
_AT_ONCE: Final = 50
#: Places that a living fork still reads through when its parent is erased.
_FOR_FORKS: Final = frozenset({"threads", "slots", "turns"})
#: Method by which a place's rows go, as receipts call it.
_METHODS: Final[Mapping[Fate, str]] = MappingProxyType(
    {
        Fate.DELETED: "deleted",
        Fate.NULLED: "nulled",
        Fate.BLANKED: "nulled",
        Fate.DESTROYED: "shredded",
    }
)


@dataclass(frozen=True, slots=True)
class CountedTable:
    """A table with rows of subjects that an erasure takes."""

    model: type[Model]
    privacy: Privacy

    @property
    def name(self) -> str:
        """Return the table's name in plans and receipts: `events`, `page_levels`."""
        return str(self.model._meta.verbose_name_plural).replace(" ", "_")

    @property
    def method(self) -> str:
        """Return the method by which the table's rows go, as receipts call it."""
        return _METHODS[self.privacy.forget]

    def filter_rows(self, **owner: UUID) -> QuerySet[Any]:
        """Select the rows of `subject` or `thread` that hold something."""
        ((kind, wanted),) = owner.items()
        lookup = getattr(self.privacy, kind)
        rows = self.model._default_manager.filter(self.privacy.remaining)
        return rows.filter(**{lookup: wanted})


def iter_places() -> Iterator[CountedTable]:
    """Yield the tables from which an erasure takes rows of a subject."""
    for model, privacy in list_declared_models().items():
        if privacy.subject is not None and privacy.forget in _METHODS:
            yield CountedTable(model, privacy)


def get_passing() -> frozenset[str]:
    """Return the names of places whose rows come and go by themselves."""
    return frozenset(each.name for each in iter_places() if each.privacy.passing)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCount:
    """Counts of a place's rows: rows that go, rows that stay, and why these stay."""

    goes: int
    stays: int = 0
    why: str = ""
    #: Rows of threads that stay: the eraser deletes the rows and makes them anew.
    derives: int = 0

    @property
    def kept(self) -> dict[str, Any]:
        kept = {"keep": self.stays, "why": self.why} if self.stays else {}
        return kept | ({"derive": self.derives} if self.derives else {})


def count_whole(
    thread: UUID, head_seq: int, made: Sequence[Range], *, forked: bool
) -> dict[str, PlaceCount]:
    """Count rows of a thread that goes whole, and of records `made` from the thread.

    Counts rows that still hold something. While a fork lives, the rows that the fork
    reads through stay. A query for each place and fifty ranges.
    """
    whole = [(thread, 1, head_seq)] if forked else []
    beside = count_ranges([*whole, *made], but=thread)
    own = count_thread(thread)
    if forked:
        own["pages"] = Page.objects.filter(thread=thread, deleted_seq=None).count()
    return {
        name: PlaceCount(goes=0, stays=n, why="fork")
        if forked and name in _FOR_FORKS
        else PlaceCount(goes=n + beside.get(name, 0))
        for name, n in own.items()
    }


def count_records(ranges: Sequence[Range]) -> dict[str, PlaceCount]:
    """Count rows of these records that still hold something. Slots keep their index."""
    found = {name: PlaceCount(goes=n) for name, n in count_ranges(ranges).items()}
    slots = _count_rows(Slot.objects.all(), (Reference("thread_id", "seq"),), ranges)
    return {**found, "slots": PlaceCount(goes=0, stays=slots, why="chain")}


def count_subject(subject: UUID) -> Counts:
    """Count rows that still hold something of the subject. One query for each place."""
    return {
        each.name: each.filter_rows(subject=subject).count() for each in iter_places()
    }


def count_thread(thread: UUID) -> Counts:
    """Count rows that still hold something of the thread. One query for each place."""
    places = [each for each in iter_places() if each.privacy.thread is not None]
    return {each.name: each.filter_rows(thread=thread).count() for each in places}


def count_ranges(ranges: Sequence[Range], *, but: UUID | None = None) -> Counts:
    """Count rows of any thread that still hold something of these records.

    Leaves out rows of the thread `but`. Seven queries for every fifty ranges.
    """
    others = Q() if but is None else ~Q(thread=but)
    return {
        each.name: _count_rows(
            each.model._default_manager.filter(each.privacy.remaining, others),
            each.privacy.references,
            ranges,
        )
        for each in _list_referring()
    }


def get_methods(scope: str) -> Mapping[str, str]:
    """Return, by place, the method by which an erasure of this scope takes rows."""
    if scope in (Erasure.Scope.BEFORE, Erasure.Scope.RECORD):
        names = [each.name for each in _list_referring()]
        return {
            name: "nulled" if name in ("events", "slots") else "deleted"
            for name in (*names, "slots", "snapshots")
        }
    return {each.name: each.method for each in iter_places()}


def _list_referring() -> list[CountedTable]:
    """List the places whose rows go with single records."""
    return [each for each in iter_places() if each.privacy.references]


def _match_range(reference: Reference, wanted: Range) -> Q:
    """Match rows that refer to a record of the range."""
    thread, first, last = wanted
    if reference.until:
        lies = Q(**{f"{reference.seq}__lte": last, f"{reference.until}__gte": first})
    else:
        lies = Q(**{f"{reference.seq}__range": (first, last)})
    free = Q(**dict.fromkeys(reference.unless))
    return Q(**{reference.thread: thread}) & lies & free


def _count_rows(
    rows: QuerySet[Any], references: Sequence[Reference], ranges: Sequence[Range]
) -> int:
    count, met = 0, set[Any]()
    # Two statements may match a row that refers to two records: count keys then.
    once = len(references) == 1 and references[0].until is None
    for start in range(0, len(ranges), _AT_ONCE):
        batch = ranges[start : start + _AT_ONCE]
        wanted = [_match_range(each, one) for each in references for one in batch]
        found = rows.filter(reduce(or_, wanted))
        if once or len(ranges) <= _AT_ONCE:
            count += found.count()
        else:
            met |= {*found.values_list("pk", flat=True)}
    return count + len(met)
