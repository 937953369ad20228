"""Targets of an erasure: threads that go whole, and records of threads that stay.

Never writes. The plan freezes the targets as JSON values; the eraser follows the frozen
values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Max, QuerySet

from memoryhub.journal.forget import erasing, purging
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.per_thread import list_distributed
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_counts
from memoryhub.queries.forget.erasure_closures import NOT_LOOKED, OldMessages
from memoryhub.queries.forget.erasure_counts import PlaceCount, Range
from memoryhub.queries.forget.holds import select_in_force
from memoryhub.queries.scan.residue import WORKER_FILES

Scope = Erasure.Scope
#: Reason of an erasure by age: old values may be written anew, and facts learnt from
#: old records stay.
RETENTION: Final = "retention"
#: Which time the scope `before` compares: when it happened, or when it was recorded.
Clock = Literal["occurred", "recorded"]
#: Threads per statement.
_AT_ONCE: Final = 200
#: {"heads": [[thread, seq], …], "ranges": [[thread, first, last], …]}, and by the
#: clock `occurred` `looked` and `old`, the fields of OldMessages.
Targets = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRequest:
    """A request to erase: its scope, target and reason. `erasures` validates it."""

    scope: str
    reason: str
    thread: Thread | None = None
    before: datetime | None = None
    clock: Clock = "occurred"
    seq: int | None = None
    ticket: str | None = None
    restrict: bool = False
    #: Messages found by the stored plan, which need not be opened again.
    earlier: OldMessages = NOT_LOOKED


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureDraft:
    """A freshly counted plan: counts by place, and targets."""

    planned: Mapping[str, Any]
    targets: Mapping[str, Any]

    def has_changed(self, row: Erasure) -> bool:
        """Tell whether the stored plan differs from this one in anything lasting."""
        before = orjson.loads(row.planned)
        if _select_lasting(before) != _select_lasting(self.planned):
            return True
        if row.scope not in (Scope.SUBJECT, Scope.THREAD):
            return False
        heads: Any = orjson.loads(row.targets)["heads"]
        return bool(heads != self.targets["heads"])


def draft_plan(subject: Subject, wish: ErasureRequest) -> ErasureDraft:
    """Count a plan as of now. A query for each place, and those of the closure."""
    scope = wish.scope
    goes = list_targets(subject, wish)
    touched = list_threads(goes)
    # Forks keep the rows they read through; an erased subject keeps nothing.
    whole = scope == Scope.SUBJECT
    forks = set[UUID]() if whole else purging.list_live_descendants(touched) - touched
    counts = count_targets(subject.id, scope, goes)
    methods = erasure_counts.get_methods(scope)
    planned = {
        "count": sum(found.goes for found in counts.values()),
        "places": {
            name: {"erase": found.goes, "method": methods[name], **found.kept}
            for name, found in counts.items()
        },
        "threads": len(touched),
        "forks": len(forks),
        "unlinked": erasure_closures.count_unlinked(list_ranges(goes)),
        "holds": select_in_force(subject.id, now=clock.now()).count(),
        "residue": [*iter_residue(scope, forked=bool(forks))],
    }
    if scope == Scope.BEFORE:
        planned["clock"] = wish.clock
    return ErasureDraft(planned=planned, targets=goes)


def build_request(row: Erasure) -> ErasureRequest:
    """Return the request that a stored erasure was planned for."""
    held: Targets = orjson.loads(row.targets)
    return ErasureRequest(
        scope=row.scope,
        reason=row.reason,
        thread=row.thread,
        before=row.before,
        clock=get_clock(row),
        earlier=OldMessages(
            {UUID(of): head for of, head in held.get("looked", ())},
            [(UUID(of), seq) for of, seq in held.get("old", ())],
        ),
        seq=row.seq,
        ticket=row.ticket,
        restrict=row.restrict,
    )


def get_clock(row: Erasure) -> Clock:
    """Return the clock of a stored erasure; plans of earlier versions name none."""
    clock: Clock = orjson.loads(row.planned).get("clock", "recorded")
    return clock


def list_targets(subject: Subject, wish: ErasureRequest) -> Targets:
    """Return the targets, in a fixed order. One query, and those of the closure.

    Records of threads that stay go with all records derived from them. For the reason
    RETENTION, home threads keep what they learnt from other threads.
    """
    scope, thread, seq = wish.scope, wish.thread, wish.seq
    taught = wish.reason != RETENTION
    heads: QuerySet[Thread] = Thread.objects.none()
    ranges: Sequence[Range] = ()
    looked: dict[str, Any] = {}
    if scope == Scope.SUBJECT:
        heads = Thread.objects.filter(subject=subject)
    elif scope == Scope.BEFORE:
        assert wish.before is not None
        ranges = erasure_closures.list_recorded(subject, wish.before, thread=thread)
        if wish.clock == "occurred":
            old = erasure_closures.find_old_messages(
                subject, wish.before, ranges, thread=thread, earlier=wish.earlier
            )
            ranges += [(of, seq, seq) for of, seq in old.places]
            looked = {
                "looked": [[str(of), head] for of, head in sorted(old.looked.items())],
                "old": [[str(of), seq] for of, seq in old.places],
            }
        ranges = erasure_closures.compute_closure(ranges, taught=taught)
    elif scope == Scope.THREAD:
        assert thread is not None
        heads = Thread.objects.filter(id=thread.id)
        ranges = erasure_closures.list_derived(thread, taught=taught)
    else:
        assert thread is not None
        assert seq is not None
        ranges = erasure_closures.list_record(thread, seq, taught=taught)
    whole = heads.order_by("id").values_list("id", "head_seq")
    return {
        "heads": [[str(of), head] for of, head in whole],
        "ranges": [[str(of), first, last] for of, first, last in ranges],
        **looked,
    }


def list_threads(frozen: Targets) -> set[UUID]:
    """Return the threads that lose records, out of frozen targets."""
    return {UUID(of) for of, *_ in (*frozen["heads"], *frozen["ranges"])}


def list_ranges(frozen: Targets) -> list[Range]:
    return [(UUID(of), first, last) for of, first, last in frozen["ranges"]]


def count_targets(subject: UUID, scope: str, frozen: Targets) -> dict[str, PlaceCount]:
    """Count rows of the targets that still hold something, by place."""
    if scope == Scope.SUBJECT:
        counts = erasure_counts.count_subject(subject)
        return {name: PlaceCount(goes=n) for name, n in counts.items()}
    ranges = list_ranges(frozen)
    if scope == Scope.THREAD:
        ((name, head_seq),) = frozen["heads"]
        thread = UUID(name)
        forked = bool(purging.list_live_descendants([thread]))
        found = erasure_counts.count_whole(thread, head_seq, ranges, forked=forked)
    else:
        found = erasure_counts.count_records(ranges)
    goes = found.get("snapshots", PlaceCount(goes=0))
    found["snapshots"] = replace(goes, derives=count_made_anew(scope, frozen))
    return found


def count_left(row: Erasure) -> dict[str, int]:
    """Count rows of an erasure's targets that still hold something, by place."""
    found = count_targets(row.subject_id, row.scope, orjson.loads(row.targets))
    return {name: each.goes for name, each in found.items()}


def count_made_anew(scope: str, frozen: Targets, *, by: UUID | None = None) -> int:
    """Count snapshots, in threads that stay, that hold something of the targets.

    With an erasure's id in `by`: only snapshots up to that erasure's last order, which
    the erasure made anew. Two queries for two hundred threads, and one a generation of
    forks.
    """
    gone = {UUID(of) for of, _ in frozen["heads"]} if scope == Scope.THREAD else ()
    heads = [(UUID(of), 1, head) for of, head in frozen["heads"]]
    held = erasing.list_holders([*heads, *list_ranges(frozen)])
    since = {row.id: seq for row, seq in held.items() if row.id not in gone}
    found = 0
    for start in range(0, len(since), _AT_ONCE):
        batch = [*since][start : start + _AT_ONCE]
        until = _find_last_orders(batch, by) if by else {}
        rows = Snapshot.objects.filter(thread__in=batch).values_list("thread", "seq")
        found += sum(
            seq >= since[thread] and (by is None or seq <= until.get(thread, 0))
            for thread, seq in rows
        )
    return found


def _find_last_orders(threads: Sequence[UUID], by: UUID) -> dict[UUID, int]:
    """Return the seq of the last order of the erasure `by` in each of these threads."""
    orders = Event.objects.filter(thread__in=threads, actor=erasing.render_actor(by))
    rows = orders.order_by().values("thread").annotate(last=Max("seq"))
    return dict(rows.values_list("thread", "last"))


def iter_residue(scope: str, *, forked: bool) -> Iterator[str]:
    """Yield the words of residue that stays out of reach; the receipt dates each."""
    yield from ("backups", "free_blocks", "process_memory", "replies_sent")
    yield from ("downloads", "recipients")
    if scope == Scope.SUBJECT:
        yield "key_backups"
    if connection.vendor == "postgresql":
        # Left there: names, and sealed bytes too while the subject's key exists.
        yield from ("database_free_space", "wal")
    if list_distributed():
        yield WORKER_FILES
    if forked and scope == Scope.THREAD:
        yield "names_in_forks"


def _select_lasting(planned: Mapping[str, Any]) -> Any:
    """Return the parts of a plan that do not change by themselves."""
    passing = erasure_counts.get_passing()
    places = {
        name: place
        for name, place in planned.get("places", {}).items()
        if name not in passing
    }
    return places, planned.get("forks")
