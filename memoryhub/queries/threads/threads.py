"""Threads by name, and lists by scope, label, subject and time. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import orjson
from django.db.models import Exists, OuterRef, Q, QuerySet

from memoryhub.errors import NotFoundError, SubjectRestrictedError
from memoryhub.kernel.state.paging import compute_resident_rate, count_rated_exchanges
from memoryhub.kernel.state.state import DEFAULT_MAX_SLOTS, ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadQuerySet
from memoryhub.queries import tombstones
from memoryhub.queries.lists.cursors import ListBatch, ListScope

Sort = Literal["active", "created", "slots"]
Order = Literal["desc", "asc"]

#: `listed_at` may lag behind a thread's newest event by about this time.
LISTED_LAG = timedelta(seconds=11)
_SORTED_BY: dict[Sort, str] = {
    "active": "listed_at",
    "created": "created_at",
    "slots": "listed_slots",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Hit rates: exchanges without a fetch, and TLB look-ups that hit."""

    #: Number of latest exchanges, and of those in which a page was fetched.
    exchanges_lately: int
    faulted_lately: int
    #: TLB look-ups that hit and that missed, since the thread began.
    hits: int
    misses: int

    @property
    def resident_rate(self) -> float | None:
        """Return the share of exchanges without a fetch; None without exchanges."""
        return compute_resident_rate(self.exchanges_lately, self.faulted_lately)

    @property
    def lookups(self) -> int:
        return self.hits + self.misses

    @property
    def hit_rate(self) -> float | None:
        """Return the share of look-ups that hit; None before the first look-up."""
        return self.hits / self.lookups if self.lookups else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadLine(Rates):
    """A thread in a list: identity, scope, counters, times."""

    id: UUID
    name: str
    subject: UUID
    home: bool
    status: str
    agent_type: str | None
    agent_instance: str | None
    session: str | None
    labels: Mapping[str, Any]
    config: Mapping[str, Any]
    parent: UUID | None
    fork_seq: int | None
    #: [[ancestor id, first index, end index, up-to seq], …]
    lineage: tuple[tuple[str, int, int, int], ...]
    head_seq: int
    slots: int
    max_slots: int
    nearly_full: bool
    turns: int
    tokens: int
    bytes: int
    created_at: datetime
    last_event_at: datetime
    last_event_type: str
    last_active_at: datetime | None
    #: Sort values of lists: at most 10 s behind the newest event.
    listed_at: datetime
    listed_slots: int
    #: Tokens of the working set.
    resident: int
    capacity: int
    faults: int
    #: Refaults in the latest turns.
    refaults: int
    exchanges: int
    faulted_exchanges: int
    #: Whether messages wait for the observer, or a log for the reflector.
    observer_due: bool = False

    @property
    def title(self) -> str:
        """Return the name that people read, without ids that stand beside it."""
        if self.home:
            return f"Home of person {str(self.subject)[-8:]}"
        return names.remove_subject(self.name, self.subject)

    @property
    def resident_rate_in_all(self) -> float | None:
        return compute_resident_rate(self.exchanges, self.faulted_exchanges)

    @property
    def filled(self) -> int:
        """Compute the fill of the working set, in percent."""
        if not self.capacity:
            return 0
        return min(100, self.resident * 100 // self.capacity)

    @property
    def inherited(self) -> int:
        return self.lineage[-1][2] if self.lineage else 0

    @classmethod
    def from_row(cls, row: Thread) -> ThreadLine:
        config = orjson.loads(row.config)
        return cls(
            id=row.id,
            name=row.name,
            subject=row.subject_id,
            home=row.home,
            status=row.status,
            agent_type=row.agent_type,
            agent_instance=row.agent_instance,
            session=row.session,
            labels=orjson.loads(row.labels),
            config=config,
            parent=row.parent_id,
            fork_seq=row.fork_seq,
            lineage=tuple(tuple(part) for part in orjson.loads(row.lineage)),
            head_seq=row.head_seq,
            slots=row.slot_count,
            max_slots=config.get("max_slots", DEFAULT_MAX_SLOTS),
            nearly_full=row.nearly_full,
            turns=row.turn_count,
            tokens=row.token_count,
            bytes=row.byte_count,
            created_at=row.created_at,
            last_event_at=row.last_event_at,
            last_event_type=row.last_event_type,
            last_active_at=row.last_active_at,
            listed_at=row.listed_at,
            listed_slots=row.listed_slots,
            observer_due=bool(row.observer_due),
            **_build_paging(row),
        )

    def build_as_of(self, state: ThreadState) -> ThreadLine:
        """Return the line with status, labels, counts and rates as of this state."""
        paging, exchanges = state.paging, state.paging.exchanges
        return replace(
            self,
            status=state.status,
            labels=dict(state.labels),
            head_seq=state.seq,
            slots=state.slot_count,
            turns=state.turn_count,
            tokens=state.token_count,
            bytes=state.byte_count,
            last_event_at=state.at or self.created_at,
            nearly_full=state.nearly_full,
            resident=paging.used,
            capacity=paging.settings.usable,
            hits=paging.tlb.hits,
            misses=paging.tlb.misses,
            faults=paging.counts.get("faults", 0),
            refaults=paging.count_refaults(state.turn_count),
            exchanges=exchanges.begun,
            exchanges_lately=count_rated_exchanges(exchanges.begun),
            faulted_exchanges=exchanges.faulted,
            faulted_lately=exchanges.faulted_lately,
        )


def _build_paging(row: Thread) -> dict[str, int]:
    return {
        "resident": row.resident_tokens,
        "capacity": row.capacity_tokens,
        "hits": row.tlb_hits,
        "misses": row.tlb_misses,
        "faults": row.fault_count,
        "refaults": row.refault_count,
        "exchanges": row.exchange_count,
        "exchanges_lately": count_rated_exchanges(row.exchange_count),
        "faulted_exchanges": row.faulted_exchange_count,
        "faulted_lately": row.faulted_lately_count,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFilter:
    """Filter of threads; None matches any value, and fields are joined by AND."""

    status: str | None = None
    agent_type: str | None = None
    agent_instance: str | None = None
    session: str | None = None
    #: By label name: the value as text, e.g. `abc`, `1`, `0.5`, `true`.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Name of the thread whose forks match.
    parent: str | None = None
    active_after: datetime | None = None
    created_after: datetime | None = None
    subject: UUID | None = None
    #: For people who search a thread; agents look names up exactly.
    name_prefix: str | None = None
    nearly_full: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values that identify this filter."""
        equal = {name: getattr(self, name) for name in _EQUAL}
        return {
            **{name: str(value) for name, value in equal.items() if value is not None},
            "labels": dict(self.labels),
            "parent": self.parent,
            "active_after": self.active_after,
            "created_after": self.created_after,
            "name_prefix": self.name_prefix,
        }


_EQUAL = (
    "status",
    "agent_type",
    "agent_instance",
    "session",
    "subject",
    "nearly_full",
)


def filter_visible(project: UUID, *, bound: UUID | None = None) -> QuerySet[Thread]:
    """Return the visible threads of a project; of one subject if `bound`."""
    rows = ThreadQuerySet(Thread).filter(project_id=project)
    rows = rows.exclude(status=Thread.Status.IMPORTING)
    return rows if bound is None else rows.filter(subject_id=bound)


def list_stored_names(name: str, *, bound: UUID | None = None) -> tuple[str, ...]:
    """List the stored names that a name can stand for under a key, preferred first."""
    return (name,) if bound is None else (names.add_subject(bound, name), name)


def get_thread(
    project: UUID,
    name: str,
    *,
    bound: UUID | None = None,
    subject: UUID | None = None,
) -> Thread:
    """Return the thread of that exact name, with its subject. One query.

    With `bound`, the thread that a key bound to that subject calls by that name; with
    `subject`, only that subject's thread. Raises NotFoundError, ThreadErasedError,
    SubjectErasedError; the last two name the erasure and take more queries. A retired
    thread reads as before until it is erased.
    """
    meant = list_stored_names(name, bound=bound)
    rows = filter_visible(project, bound=bound or subject).select_related("subject")
    found = {row.name: row for row in rows.filter(name__in=meant)}
    thread = next((found[each] for each in meant if each in found), None)
    if thread is None:
        # An erased thread no longer has its name.
        tombstones.require_never_erased(project, meant, bound=bound or subject)
        raise NotFoundError
    if thread.status == Thread.Status.ERASED:
        raise tombstones.build_erased_error(project, thread.name)
    tombstones.require_subject(thread.subject)
    return thread


def get_unrestricted(project: UUID, name: str, *, bound: UUID | None) -> Thread:
    """Return the thread of that name for an agent, as `get_thread` does.

    Raises SubjectRestrictedError too, while the subject is restricted for agents.
    """
    thread = get_thread(project, name, bound=bound)
    if thread.subject.state == Subject.State.RESTRICTED:
        raise SubjectRestrictedError
    return thread


def list_threads(
    project: UUID,
    *,
    where: ThreadFilter | None = None,
    sort: Sort = "active",
    order: Order = "desc",
    after: str | None = None,
    limit: int = 50,
    bound: UUID | None = None,
) -> ListBatch[ThreadLine]:
    """List threads by latest activity, creation or number of slots. One query.

    Threads of restricted or erased subjects are left out, and erased threads unless the
    filter asks for them. Raises BadCursorError when `after` is not a cursor of this
    very list.
    """
    where = where or ThreadFilter()
    listing = ListScope(
        name="threads",
        project=project,
        filters=[where.to_dict(), sort, order, bound],
    )
    column = _SORTED_BY[sort]
    seen = filter_visible(project, bound=bound).filter(home=False)
    rows = _filter_rows(_exclude_unreadable(seen), where, bound)
    if where.status is None:
        rows = rows.exclude(status=Thread.Status.ERASED)
    if after is not None:
        rows = rows.filter(_build_after(column, order, *listing.open(after)))
    ordering = (f"-{column}", "id") if order == "desc" else (column, "-id")
    found = list(rows.order_by(*ordering)[: limit + 1])
    batch, rest = found[:limit], found[limit:]
    return ListBatch(
        items=tuple(ThreadLine.from_row(row) for row in batch),
        next=listing.seal([getattr(batch[-1], column), batch[-1].id]) if rest else None,
    )


def _exclude_unreadable(rows: QuerySet[Thread]) -> QuerySet[Thread]:
    """Exclude the threads that `get_unrestricted` would refuse."""
    subjects = Subject.objects.filter(id=OuterRef("subject_id"))
    return rows.exclude(Exists(subjects.exclude(state=Subject.State.ACTIVE)))


def _filter_rows(
    rows: QuerySet[Thread], where: ThreadFilter, bound: UUID | None
) -> QuerySet[Thread]:
    equal = {name: getattr(where, name) for name in _EQUAL}
    # The names are this module's columns, never a client's text.
    rows = rows.filter(**{n: value for n, value in equal.items() if value is not None})
    for name, value in where.labels.items():
        rows = rows.filter(thread_labels__name=name, thread_labels__value=value)
    if where.parent is not None:
        rows = rows.filter(
            parent__name__in=list_stored_names(where.parent, bound=bound)
        )
    if where.active_after is not None:
        # The second condition follows from the first and has an index.
        listed = where.active_after - LISTED_LAG
        rows = rows.filter(last_active_at__gt=where.active_after, listed_at__gt=listed)
    if where.created_after is not None:
        rows = rows.filter(created_at__gt=where.created_after)
    if where.name_prefix:
        # Use a range, since LIKE folds case on SQLite; names are ASCII.
        end = where.name_prefix + "\x7f"
        rows = rows.filter(name__gte=where.name_prefix, name__lt=end)
    return rows


def _build_after(column: str, order: Order, value: Any, thread: str) -> Q:
    """Build the condition on rows after a position: by the column, ties by id."""
    onward, tie = ("lt", "gt") if order == "desc" else ("gt", "lt")
    return Q(**{f"{column}__{onward}": value}) | Q(
        **{column: value, f"id__{tie}": thread}
    )
