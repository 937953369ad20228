"""Profiles: what is held of one person, counted and never opened. Never writes.

Counts are exact and without a cap. Facts are derived and blocks counted; of all else
every write keeps its totals.
What was trimmed or overwritten is still a record in the journal, and counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Max, Min, QuerySet, Sum

from memoryhub.errors import NotFoundError
from memoryhub.journal.log.heads import LISTED_EVERY
from memoryhub.journal.rows import totals
from memoryhub.journal.rows.totals import Figures
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.queries import tombstones
from memoryhub.queries.episodes import pending
from memoryhub.queries.episodes.pending import Pending
from memoryhub.queries.forget import erasures, holds
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.forget.holds import HoldLine
from memoryhub.queries.knowledge import blocks, facts
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.nouns import COUNTED
from memoryhub.queries.threads import retention

#: Days that uses are told one by one for; before them each key has a sum.
DAYS: Final = 90
#: Erasures that are shown, newest first; the list has them all.
ERASURES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFigures:
    """Records of one type of event."""

    events: int
    #: Those that have a content, and those that had one that was erased.
    sealed: int
    erased: int
    #: Of the contents, as they are stored.
    bytes: int

    @classmethod
    def of(cls, kept: Figures) -> TypeFigures:
        return cls(
            events=kept.records,
            sealed=kept.sealed,
            erased=kept.erased,
            bytes=kept.bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A key's reads and writes: on one day, or altogether."""

    prefix: str
    first_day: date
    last_day: date
    reads: int
    writes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A subject with all that is kept of it, in numbers."""

    id: UUID
    anonymous: bool
    state: str
    #: Why it is restricted, as a word.
    basis: str | None
    epoch: int
    generation: int
    created_at: datetime
    #: Of its events, None without any.
    first_seen: datetime | None
    last_seen: datetime | None
    #: By status.
    threads: Mapping[str, int]
    events: int
    #: By type of event.
    kinds: Mapping[str, TypeFigures]
    #: Of all contents.
    bytes: int
    turns: int
    #: Messages, those that a fork inherits not counted again.
    slots: int
    #: Those that are there, and those that were deleted and leave a line.
    pages: int
    deleted_pages: int
    #: Lower levels and FULL of old versions, by level.
    levels: Mapping[int, int]
    #: Names that have a value now.
    keys: int
    #: Exchanges, however many threads they lie in.
    episodes: int
    #: Of long-term memory: blocks that are there, and facts that hold now.
    blocks: int
    facts: int
    #: Exchanges of which nothing was learnt.
    pending: Pending
    #: Records of other nouns, by name.
    counts: Mapping[str, int]
    #: Values, names and ids that may not come back, by kind.
    tombstones: Mapping[str, int]
    #: Which key read and wrote: altogether, and of the last days each.
    uses: Sequence[Use]
    days: Sequence[Use]
    holds: Sequence[HoldLine]
    erasures: Sequence[ErasureLine]
    #: When the retention policy ends the first of its threads; None: never.
    retention_due_at: datetime | None


def get_subject(project: UUID, subject: UUID, *, bound: UUID | None = None) -> Subject:
    """Return a subject of the project, and of the key if that is bound. One query.

    Its project comes with it. Raises NotFoundError, SubjectErasedError.
    """
    rows = Subject.objects.select_related("project").filter(project_id=project)
    row = rows.filter(id=subject).first() if bound in (None, subject) else None
    if row is None:
        raise NotFoundError
    tombstones.require_subject(row)
    return row


def get_profile(subject: Subject, *, now: datetime) -> Profile:
    """Return what is held of a subject. Seventeen queries, however much it is.

    `subject` comes with its project.
    """
    kept = totals.get(subject.id)
    return Profile(
        id=subject.id,
        anonymous=subject.anonymous,
        state=subject.state,
        basis=subject.basis or None,
        epoch=subject.epoch,
        generation=subject.generation,
        created_at=subject.created_at,
        threads=totals.statuses(kept),
        **_seen(subject),
        **_records(
            {name: TypeFigures.of(each) for name, each in totals.types(kept).items()}
        ),
        pages=totals.number(kept, totals.PAGES),
        deleted_pages=totals.number(kept, totals.DELETED_PAGES),
        levels=totals.levels(kept),
        keys=totals.number(kept, totals.KEYS) - _expired(subject, now),
        episodes=totals.number(kept, totals.EPISODES),
        **_long_term(subject, now),
        **_privacy(subject, now),
        retention_due_at=retention.get_first_due_at(subject),
    )


def _seen(subject: Subject) -> dict[str, Any]:
    """When its threads were first and last written to. Three queries."""
    own = Thread.objects.scoped(subject.project).filter(subject=subject)
    oldest = own.order_by("created_at").values_list("created_at", flat=True)
    listed = own.order_by("-listed_at").values_list("listed_at", flat=True).first()
    newest = None
    if listed is not None:
        # Where they stand in lists lags: whichever moved last is among these.
        moved = own.filter(listed_at__gte=listed - LISTED_EVERY)
        newest = moved.aggregate(at=Max("last_event_at"))["at"]
    return {"first_seen": oldest.first(), "last_seen": newest}


def _expired(subject: Subject, now: datetime) -> int:
    """Keys that nothing answers from any more and no sweep has taken. One query."""
    gone = Key.objects.filter(expires_at__lte=now, thread__subject=subject)
    return gone.exclude(thread__status=Thread.Status.IMPORTING).count()


def _long_term(subject: Subject, now: datetime) -> dict[str, Any]:
    """Blocks and facts, which lie in its home thread, and what may become facts."""
    home = find_home(subject)
    return {
        "blocks": blocks.count_blocks(home) if home else 0,
        "facts": facts.count_holding(home, at=now) if home else 0,
        "pending": pending.count(subject),
    }


def _records(kinds: Mapping[str, TypeFigures]) -> dict[str, Any]:
    """What follows from the events by type."""
    left = {name: kind.events - kind.erased for name, kind in kinds.items()}
    return {
        "events": sum(kind.events for kind in kinds.values()),
        "kinds": kinds,
        "bytes": sum(kind.bytes for kind in kinds.values()),
        "turns": left.get("turn.began", 0),
        "slots": left.get("slot.appended", 0),
        "counts": {name: left.get(event, 0) for name, event in COUNTED.items()},
    }


def _privacy(subject: Subject, now: datetime) -> dict[str, Any]:
    """Who used it, and what was and may be done about it. Five queries."""
    project, own = subject.project_id, subject.id
    uses = DailyUse.objects.filter(subject=subject)
    recent = uses.filter(day__gt=now.date() - timedelta(days=DAYS))
    shown = erasures.list_erasures(project, subject=own, limit=ERASURES)
    return {
        "tombstones": tombstones.count_tombstones(project, subject=own),
        "uses": _uses(uses, by=("key__prefix",)),
        "days": _uses(recent, by=("day", "key__prefix")),
        "holds": holds.list_of(own, now=now),
        "erasures": shown.items,
    }


def _uses(rows: QuerySet[DailyUse], *, by: tuple[str, ...]) -> tuple[Use, ...]:
    """Sums by key, or by day and key, newest first. One query."""
    summed = (
        rows.order_by()
        .values(*by)
        .annotate(
            first=Min("day"), last=Max("day"), read=Sum("reads"), written=Sum("writes")
        )
    )
    return tuple(
        Use(
            prefix=row["key__prefix"],
            first_day=row["first"],
            last_day=row["last"],
            reads=row["read"],
            writes=row["written"],
        )
        for row in summed.order_by("-last", "key__prefix")
    )
