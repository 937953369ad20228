"""Erasures as lists and screens show them, with state and counts. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count, Q

from memoryhub.errors import NotFoundError
from memoryhub.models.erasures import Erasure
from memoryhub.queries.lists import newest_first
from memoryhub.queries.lists.cursors import ListBatch, ListScope

State = Erasure.State
#: States that no further step changes.
CLOSED = (State.COMPLETE, State.EXPIRED, State.CANCELLED)
#: Age from which readiness reports an unfinished erasure.
LATE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLine:
    """Counts of what an erasure does to one place."""

    place: str
    #: Rows that go, rows that are made anew, and rows that stay.
    erase: int
    derive: int
    keep: int
    #: Why rows stay, as a word.
    why: str | None
    #: How rows go: deleted, nulled, shredded.
    method: str
    #: Rows counted at the fence, and rows erased since; None before the fence.
    fenced: int | None
    erased: int | None

    @property
    def goes(self) -> int:
        """Count rows that go: as planned, or once fenced, as the fence counted them."""
        return self.erase if self.fenced is None else self.fenced

    @property
    def touched(self) -> bool:
        """Tell whether rows of the place go, are made anew or stay."""
        return bool(self.goes or self.derive or self.keep)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureLine:
    """One erasure, from its plan on. No field holds erased content."""

    id: UUID
    subject: UUID
    scope: str
    thread: UUID | None
    before: datetime | None
    #: Time that `before` compares: `occurred` or `recorded`; None in other scopes.
    clock: str | None
    seq: int | None
    reason: str
    ticket: str | None
    actor: str
    restrict: bool
    state: str
    waiting_on: str | None
    #: Class of the error that broke a step.
    defect: str | None
    #: Number of rows, which the confirmation has to repeat.
    count: int
    threads: int
    forks: int
    #: Records of the same turns that name no source, and stay.
    unlinked: int
    #: Holds in force at planning.
    holds: int
    residue: tuple[str, ...]
    places: tuple[PlaceLine, ...]
    #: Time at which each state was entered, in order.
    times: Mapping[str, str]
    created_at: datetime
    expires_at: datetime
    confirmed_at: datetime | None
    updated_at: datetime
    #: Kinds of places where the last scan found undeclared data.
    undeclared: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        return self.state not in CLOSED

    @property
    def untouched(self) -> tuple[str, ...]:
        """List the places without rows of the targets."""
        return tuple(each.place for each in self.places if not each.touched)

    @property
    def keeps(self) -> bool:
        """Tell whether rows of any place are kept or rebuilt."""
        return any(each.keep or each.derive for each in self.places)

    @classmethod
    def from_row(cls, row: Erasure) -> ErasureLine:
        planned = orjson.loads(row.planned)
        return cls(
            id=row.id,
            subject=row.subject_id,
            scope=row.scope,
            thread=row.thread_id,
            before=row.before,
            clock=planned.get("clock", "recorded") if row.before else None,
            seq=row.seq,
            reason=row.reason,
            ticket=row.ticket,
            actor=row.actor,
            restrict=row.restrict,
            state=row.state,
            waiting_on=row.waiting_on or None,
            defect=row.defect or None,
            count=planned.get("count", 0),
            threads=planned.get("threads", 0),
            forks=planned.get("forks", 0),
            unlinked=planned.get("unlinked", 0),
            holds=planned.get("holds", 0),
            residue=tuple(planned.get("residue", ())),
            places=_build_places(planned, orjson.loads(row.erased)),
            times=orjson.loads(row.times),
            created_at=row.created_at,
            expires_at=row.expires_at,
            confirmed_at=row.confirmed_at,
            updated_at=row.updated_at,
            undeclared=_list_undeclared(orjson.loads(row.verification)),
        )


def _list_undeclared(scanned: Mapping[str, Any]) -> tuple[str, ...]:
    hits = [
        each for each in scanned.get("hits", ()) if each["standing"] == "undeclared"
    ]
    return tuple(sorted({each["surface"] for each in hits}))


def _build_places(
    planned: Mapping[str, Any], erased: Mapping[str, Any]
) -> tuple[PlaceLine, ...]:
    return tuple(
        PlaceLine(
            place=name,
            erase=line["erase"],
            derive=line.get("derive", 0),
            keep=line.get("keep", 0),
            why=line.get("why"),
            method=line["method"],
            fenced=erased.get(name, {}).get("fenced"),
            erased=erased.get(name, {}).get("erased"),
        )
        for name, line in planned.get("places", {}).items()
    )


def get_erasure(
    project: UUID, erasure: UUID, *, bound: UUID | None = None
) -> ErasureLine:
    """Get an erasure of the project, or of one subject if `bound`. One query.

    Raises NotFoundError.
    """
    return ErasureLine.from_row(get_row(project, erasure, bound=bound))


def get_row(project: UUID, erasure: UUID, *, bound: UUID | None = None) -> Erasure:
    """Get an erasure's row as `get_erasure` does, for its next step."""
    rows = Erasure.objects.filter(_filter_owned(project, bound), id=erasure)
    row: Erasure | None = rows.first()
    if row is None:
        raise NotFoundError
    return row


def list_erasures(
    project: UUID,
    *,
    subject: UUID | None = None,
    state: str | None = None,
    after: str | None = None,
    limit: int = 50,
    bound: UUID | None = None,
) -> ListBatch[ErasureLine]:
    """List erasures, newest first. One query.

    Raises BadCursorError when the cursor `after` belongs to another list.
    """
    filters = [str(subject), state, str(bound)]
    listing = ListScope(name="erasures", project=project, filters=filters)
    rows = Erasure.objects.filter(_filter_owned(project, bound))
    if subject is not None:
        rows = rows.filter(subject_id=subject)
    if state is not None:
        rows = rows.filter(state=state)
    return newest_first.list_batch(
        rows, listing, line=ErasureLine.from_row, after=after, limit=limit
    )


def list_unfinished() -> list[UUID]:
    """List confirmed erasures with a step to go, longest silent first. One query."""
    rows = Erasure.objects.exclude(state__in=CLOSED).exclude(confirmed_at=None)
    rows = rows.exclude(state=State.HELD).order_by("updated_at", "id")
    return [*rows.values_list("id", flat=True)]


def count_with_hits() -> int:
    """Count erasures that stay open because a scan found data in the clear."""
    rows = Erasure.objects.filter(state=State.SCRUBBED, hit_at__isnull=False)
    return rows.count()


def list_unfenced() -> list[UUID]:
    """List confirmed erasures without a fence, longest waiting first. One query."""
    rows = Erasure.objects.filter(state=State.PLANNED).exclude(confirmed_at=None)
    return [*rows.order_by("confirmed_at", "id").values_list("id", flat=True)]


def count_troubled(now: datetime) -> tuple[int, int]:
    """Count unfinished erasures: (confirmed more than LATE ago, broken). One query."""
    rows = Erasure.objects.exclude(state__in=(*CLOSED, State.HELD))
    late = Count("id", filter=Q(confirmed_at__lt=now - LATE))
    broken = Count("id", filter=Q(waiting_on="broken"))
    found = rows.aggregate(late=late, broken=broken)
    return found["late"], found["broken"]


def _filter_owned(project: UUID, bound: UUID | None) -> Q:
    owned = Q(project_id=project)
    return owned if bound is None else owned & Q(subject_id=bound)
