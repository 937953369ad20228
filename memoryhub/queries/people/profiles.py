"""Profiles: counts of the memory of one subject; no content is opened. Never writes.

Counts are exact and without a cap. Facts are derived and blocks counted; every write
maintains the totals of all else. A trimmed or overwritten record is still in the
journal, and counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, TypedDict
from uuid import UUID

from django.db.models import Max, Min, QuerySet, Sum

from memoryhub.errors import NotFoundError
from memoryhub.journal.rows import totals
from memoryhub.journal.rows.totals import Figures
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.queries import tombstones
from memoryhub.queries.episodes import pending
from memoryhub.queries.episodes.pending import PendingCounts
from memoryhub.queries.forget import erasures, holds
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.forget.holds import HoldLine
from memoryhub.queries.knowledge import blocks, facts
from memoryhub.queries.knowledge.facts import FactLine
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.nouns import COUNTED
from memoryhub.queries.threads import retention

#: Days whose uses are listed one by one; earlier uses count only in the totals.
DAYS: Final = 90
#: Most erasures shown, newest first; the list of erasures has all.
ERASURES: Final = 50
#: Most sessions and facts shown, newest first.
SESSIONS: Final = 5
FACTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFigures:
    """Records of one type of event."""

    events: int
    #: Events with content, and events whose content was erased.
    sealed: int
    erased: int
    #: Bytes of the contents as stored.
    bytes: int

    @classmethod
    def from_figures(cls, kept: Figures) -> TypeFigures:
        return cls(
            events=kept.records,
            sealed=kept.sealed,
            erased=kept.erased,
            bytes=kept.bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """Reads and writes of an API key: on one day, or in total."""

    prefix: str
    first_day: date
    last_day: date
    reads: int
    writes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A subject, with counts of all its memory."""

    id: UUID
    anonymous: bool
    state: str
    #: Why the subject is restricted, as a word.
    basis: str | None
    epoch: int
    generation: int
    created_at: datetime
    #: When the subject's first thread began; None without threads.
    first_seen: datetime | None
    #: When the subject's newest message came; None for who has said nothing.
    last_seen: datetime | None
    #: Threads by status.
    threads: Mapping[str, int]
    events: int
    #: Figures by type of event.
    kinds: Mapping[str, TypeFigures]
    #: Bytes of all contents.
    bytes: int
    turns: int
    #: Messages; messages that a fork inherits are not counted again.
    slots: int
    #: Existing pages, and deleted pages, which leave a row.
    pages: int
    deleted_pages: int
    #: Texts of lower levels, and FULL texts of old versions, by level.
    levels: Mapping[int, int]
    #: Keys of working memory that have a value now.
    keys: int
    #: Exchanges over all threads.
    episodes: int
    #: Existing blocks, and facts that hold now.
    blocks: int
    facts: int
    #: Exchanges that are not consolidated.
    pending: PendingCounts
    #: Records of other nouns, by name.
    counts: Mapping[str, int]
    #: Tombstones of values, names and ids, by kind.
    tombstones: Mapping[str, int]
    #: Uses by key: in total, and by day of the last DAYS days.
    uses: Sequence[KeyUse]
    days: Sequence[KeyUse]
    holds: Sequence[HoldLine]
    erasures: Sequence[ErasureLine]
    #: When the retention policy first ends one of the threads; None: never.
    retention_due_at: datetime | None


def get_subject(project: UUID, subject: UUID, *, bound: UUID | None = None) -> Subject:
    """Return a subject of the project, with the project. One query.

    With `bound`, the subject of the API key, any other subject is not found. Raises
    NotFoundError, SubjectErasedError.
    """
    rows = Subject.objects.select_related("project").filter(project_id=project)
    row = rows.filter(id=subject).first() if bound in (None, subject) else None
    if row is None:
        raise NotFoundError
    tombstones.require_subject(row)
    return row


def get_profile(subject: Subject, *, now: datetime) -> Profile:
    """Return the profile of a subject. Sixteen queries, for memory of any size.

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
        threads=totals.count_statuses(kept),
        **find_seen(subject),
        **_sum_records(
            {
                name: TypeFigures.from_figures(each)
                for name, each in totals.filter_types(kept).items()
            }
        ),
        pages=totals.count_records(kept, totals.PAGES),
        deleted_pages=totals.count_records(kept, totals.DELETED_PAGES),
        levels=totals.count_levels(kept),
        keys=totals.count_records(kept, totals.KEYS) - _count_expired(subject, now),
        episodes=totals.count_records(kept, totals.EPISODES),
        **_count_long_term(subject, now),
        **_list_privacy(subject, now),
        retention_due_at=retention.get_first_due_at(subject),
    )


class SeenTimes(TypedDict):
    """When a person's first thread began, and when the last message came."""

    first_seen: datetime | None
    last_seen: datetime | None


def find_seen(subject: Subject) -> SeenTimes:
    """Find when the first thread began, and when the last message came. Two queries."""
    own = Thread.objects.filter_visible(subject.project).filter(subject=subject)
    oldest = own.order_by("created_at").values_list("created_at", flat=True)
    newest = select_spoken(subject=subject).values_list("at", flat=True).first()
    return {"first_seen": oldest.first(), "last_seen": newest}


def select_spoken(**owner: Any) -> QuerySet[Slot]:
    """Select a subject's own messages, newest first."""
    rows = Slot.objects.filter(role="user", **owner)
    rows = rows.exclude(thread__status=Thread.Status.IMPORTING)
    return rows.order_by("-at", "-thread_id", "-index")


def list_sessions(subject: Subject, *, limit: int = SESSIONS) -> list[Thread]:
    """List the subject's threads that moved last. One query."""
    rows = Thread.objects.filter(
        project=subject.project_id, subject=subject, home=False
    ).exclude(status__in=(Thread.Status.IMPORTING, Thread.Status.ERASED))
    return [*rows.order_by("-listed_at", "id")[:limit]]


def list_sample(subject: Subject, *, now: datetime) -> tuple[FactLine, ...]:
    """List the newest facts that hold now, up to FACTS. Five queries."""
    home = find_home(subject)
    return facts.list_newest(home, at=now, limit=FACTS)[0] if home else ()


def _count_expired(subject: Subject, now: datetime) -> int:
    """Count expired keys that no sweep has deleted yet. One query."""
    gone = Key.objects.filter(expires_at__lte=now, thread__subject=subject)
    return gone.exclude(thread__status=Thread.Status.IMPORTING).count()


def _count_long_term(subject: Subject, now: datetime) -> dict[str, Any]:
    """Count the home thread's blocks and facts, and the pending exchanges."""
    home = find_home(subject)
    return {
        "blocks": blocks.count_blocks(home) if home else 0,
        "facts": facts.count_holding(home, at=now) if home else 0,
        "pending": pending.count(subject),
    }


def _sum_records(kinds: Mapping[str, TypeFigures]) -> dict[str, Any]:
    """Sum up the figures that follow from the events by type."""
    left = {name: kind.events - kind.erased for name, kind in kinds.items()}
    return {
        "events": sum(kind.events for kind in kinds.values()),
        "kinds": kinds,
        "bytes": sum(kind.bytes for kind in kinds.values()),
        "turns": left.get("turn.began", 0),
        "slots": left.get("slot.appended", 0),
        "counts": {name: left.get(event, 0) for name, event in COUNTED.items()},
    }


def _list_privacy(subject: Subject, now: datetime) -> dict[str, Any]:
    """List tombstones, uses, holds and erasures of the subject. Five queries."""
    project, own = subject.project_id, subject.id
    uses = DailyUse.objects.filter(subject=subject)
    recent = uses.filter(day__gt=now.date() - timedelta(days=DAYS))
    shown = erasures.list_erasures(project, subject=own, limit=ERASURES)
    return {
        "tombstones": tombstones.count_tombstones(project, subject=own),
        "uses": _list_uses(uses, by=("key__prefix",)),
        "days": _list_uses(recent, by=("day", "key__prefix")),
        "holds": holds.list_subject_holds(own, now=now),
        "erasures": shown.items,
    }


def _list_uses(rows: QuerySet[DailyUse], *, by: tuple[str, ...]) -> tuple[KeyUse, ...]:
    """List sums of uses by key, or by day and key, newest first. One query."""
    summed = (
        rows.order_by()
        .values(*by)
        .annotate(
            first=Min("day"), last=Max("day"), read=Sum("reads"), written=Sum("writes")
        )
    )
    return tuple(
        KeyUse(
            prefix=row["key__prefix"],
            first_day=row["first"],
            last_day=row["last"],
            reads=row["read"],
            writes=row["written"],
        )
        for row in summed.order_by("-last", "key__prefix")
    )
