"""What an erasure takes, counted by place from outside the eraser. Never writes.

The places follow from what models declare, so that a new table is counted by that.
Asked before the fence it is the plan; asked after it, what is still to go.
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
from memoryhub.models.privacy import Fate, Privacy, Reference, tables
from memoryhub.models.slots import Slot

#: A thread, and the first and last seq of what goes of it.
Range = tuple[UUID, int, int]
Counts = dict[str, int]

#: Ranges that one statement looks through.
_AT_ONCE: Final = 50
#: Of a thread that goes while a fork of it lives: what the fork still reads through.
_FOR_FORKS: Final = frozenset({"threads", "slots", "turns"})
#: How a place's part goes, as receipts call it.
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
    """A table with a part of each subject that forgetting takes."""

    model: type[Model]
    privacy: Privacy

    @property
    def name(self) -> str:
        """Name it as plans and receipts do: `events`, `page_levels`."""
        return str(self.model._meta.verbose_name_plural).replace(" ", "_")

    @property
    def method(self) -> str:
        """Tell in which way its part goes, in the words of receipts."""
        return _METHODS[self.privacy.forget]

    def of(self, **owner: UUID) -> QuerySet[Any]:
        """Return the rows of `subject` or `thread` that hold something."""
        ((kind, wanted),) = owner.items()
        lookup = getattr(self.privacy, kind)
        rows = self.model._default_manager.filter(self.privacy.remaining)
        return rows.filter(**{lookup: wanted})


def iter_places() -> Iterator[CountedTable]:
    """List the tables that forgetting takes something of a subject from."""
    for model, privacy in tables().items():
        if privacy.subject is not None and privacy.forget in _METHODS:
            yield CountedTable(model, privacy)


def get_passing() -> frozenset[str]:
    """Name the places whose rows come and go by themselves."""
    return frozenset(each.name for each in iter_places() if each.privacy.passing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Rows of a place: those that go, those that stay, and why these do."""

    goes: int
    stays: int = 0
    why: str = ""
    #: Of threads that stay: taken as well, and made anew.
    derives: int = 0

    @property
    def kept(self) -> dict[str, Any]:
        kept = {"keep": self.stays, "why": self.why} if self.stays else {}
        return kept | ({"derive": self.derives} if self.derives else {})


def count_whole(
    thread: UUID, head_seq: int, made: Sequence[Range], *, forked: bool
) -> dict[str, Found]:
    """Count what of a thread that goes whole, and was `made` of it, holds something.

    While a fork of it lives, what that reads through stays. A query for each place and
    fifty ranges.
    """
    whole = [(thread, 1, head_seq)] if forked else []
    beside = count_ranges([*whole, *made], but=thread)
    own = count_thread(thread)
    if forked:
        own["pages"] = Page.objects.filter(thread=thread, deleted_seq=None).count()
    return {
        name: Found(goes=0, stays=n, why="fork")
        if forked and name in _FOR_FORKS
        else Found(goes=n + beside.get(name, 0))
        for name, n in own.items()
    }


def count_records(ranges: Sequence[Range]) -> dict[str, Found]:
    """Count what of these records still holds something. Slots stay at their index."""
    found = {name: Found(goes=n) for name, n in count_ranges(ranges).items()}
    slots = _count(Slot.objects.all(), (Reference("thread_id", "seq"),), ranges)
    return {**found, "slots": Found(goes=0, stays=slots, why="chain")}


def count_subject(subject: UUID) -> Counts:
    """Count what still holds something of the subject. One query for each place."""
    return {each.name: each.of(subject=subject).count() for each in iter_places()}


def count_thread(thread: UUID) -> Counts:
    """Count what still holds something of the thread. One query for each place."""
    places = [each for each in iter_places() if each.privacy.thread is not None]
    return {each.name: each.of(thread=thread).count() for each in places}


def count_ranges(ranges: Sequence[Range], *, but: UUID | None = None) -> Counts:
    """Count what still holds something of these records, whosever rows refer to them.

    Rows of the thread `but` are left out. Seven queries for every fifty ranges.
    """
    others = Q() if but is None else ~Q(thread=but)
    return {
        each.name: _count(
            each.model._default_manager.filter(each.privacy.remaining, others),
            each.privacy.references,
            ranges,
        )
        for each in _referring()
    }


def get_methods(scope: str) -> Mapping[str, str]:
    """Tell by place in which way an erasure of this scope takes what is there."""
    if scope in (Erasure.Scope.BEFORE, Erasure.Scope.RECORD):
        names = [each.name for each in _referring()]
        return {
            name: "nulled" if name in ("events", "slots") else "deleted"
            for name in (*names, "slots", "snapshots")
        }
    return {each.name: each.method for each in iter_places()}


def _referring() -> list[CountedTable]:
    """List the places whose rows go with single records."""
    return [each for each in iter_places() if each.privacy.references]


def _within(reference: Reference, wanted: Range) -> Q:
    """Meet rows that refer to something of the range."""
    thread, first, last = wanted
    if reference.until:
        lies = Q(**{f"{reference.seq}__lte": last, f"{reference.until}__gte": first})
    else:
        lies = Q(**{f"{reference.seq}__range": (first, last)})
    free = Q(**dict.fromkeys(reference.unless))
    return Q(**{reference.thread: thread}) & lies & free


def _count(
    rows: QuerySet[Any], references: Sequence[Reference], ranges: Sequence[Range]
) -> int:
    count, met = 0, set[Any]()
    # A row that refers to two places may be met by two statements.
    once = len(references) == 1 and references[0].until is None
    for start in range(0, len(ranges), _AT_ONCE):
        batch = ranges[start : start + _AT_ONCE]
        wanted = [_within(each, one) for each in references for one in batch]
        found = rows.filter(reduce(or_, wanted))
        if once or len(ranges) <= _AT_ONCE:
            count += found.count()
        else:
            met |= {*found.values_list("pk", flat=True)}
    return count + len(met)
