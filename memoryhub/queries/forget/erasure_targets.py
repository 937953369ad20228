"""What an erasure is about: threads that go whole, records of those that stay.

Never writes. Counted for the plan, frozen there as JSON values, and gone by from then
on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Max, QuerySet

from memoryhub.journal.forget import erasing, purging
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_counts
from memoryhub.queries.forget.erasure_counts import Found, Range
from memoryhub.queries.forget.holds import in_force

Scope = Erasure.Scope
#: What only grew old was not wrong: its values may be written anew, and what was learnt
#: from it stays.
RETENTION: Final = "retention"
#: Threads whose snapshots one statement looks through.
_AT_ONCE: Final = 200
#: {"heads": [[thread, seq], …], "ranges": [[thread, first, last], …]}
Targets = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be forgotten, and why. `erasures` refuses what can't be meant."""

    scope: str
    reason: str
    thread: Thread | None = None
    before: datetime | None = None
    seq: int | None = None
    ticket: str | None = None
    restrict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a plan says, freshly counted."""

    planned: Mapping[str, Any]
    targets: Mapping[str, Any]

    def moved(self, row: Erasure) -> bool:
        """Tell whether the plan that was stored says anything else that matters."""
        before = orjson.loads(row.planned)
        if _lasting(before) != _lasting(self.planned):
            return True
        if row.scope not in (Scope.SUBJECT, Scope.THREAD):
            return False
        heads: Any = orjson.loads(row.targets)["heads"]
        return bool(heads != self.targets["heads"])


def drafted(subject: Subject, wish: Wish) -> Draft:
    """Return the plan as it is now. A query for each place, and the closure's."""
    scope = wish.scope
    goes = targets(subject, wish)
    touched = threads_of(goes)
    # What they read through stays; of a whole subject nothing does.
    whole = scope == Scope.SUBJECT
    forks = set[UUID]() if whole else purging.folding_through(touched) - touched
    counts = count(subject.id, scope, goes)
    methods = erasure_counts.get_methods(scope)
    planned = {
        "count": sum(found.goes for found in counts.values()),
        "places": {
            name: {"erase": found.goes, "method": methods[name], **found.kept}
            for name, found in counts.items()
        },
        "threads": len(touched),
        "forks": len(forks),
        "unlinked": erasure_closures.count_unlinked(ranges_of(goes)),
        "holds": in_force(subject.id, now=clock.now()).count(),
        "residue": [*iter_residue(scope, forked=bool(forks))],
    }
    return Draft(planned=planned, targets=goes)


def wish_of(row: Erasure) -> Wish:
    """Return what was asked for when the plan was made."""
    return Wish(
        scope=row.scope,
        reason=row.reason,
        thread=row.thread,
        before=row.before,
        seq=row.seq,
        ticket=row.ticket,
        restrict=row.restrict,
    )


def targets(subject: Subject, wish: Wish) -> Targets:
    """Return what goes, in a fixed order. One query, and those of the closure.

    Of threads that stay records go with all that was made of them; what a home thread
    made of others' unless they only grew old.
    """
    scope, thread, seq = wish.scope, wish.thread, wish.seq
    taught = wish.reason != RETENTION
    heads: QuerySet[Thread] = Thread.objects.none()
    ranges: Sequence[Range] = ()
    if scope == Scope.SUBJECT:
        heads = Thread.objects.filter(subject=subject)
    elif scope == Scope.BEFORE:
        assert wish.before is not None
        ranges = erasure_closures.list_before(subject, wish.before, taught=taught)
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
    }


def threads_of(frozen: Targets) -> set[UUID]:
    """Return the threads that lose something."""
    return {UUID(of) for of, *_ in (*frozen["heads"], *frozen["ranges"])}


def ranges_of(frozen: Targets) -> list[Range]:
    return [(UUID(of), first, last) for of, first, last in frozen["ranges"]]


def count(subject: UUID, scope: str, frozen: Targets) -> dict[str, Found]:
    """Count what of the targets still holds something, by place."""
    if scope == Scope.SUBJECT:
        counts = erasure_counts.count_subject(subject)
        return {name: Found(goes=n) for name, n in counts.items()}
    ranges = ranges_of(frozen)
    if scope == Scope.THREAD:
        ((name, head_seq),) = frozen["heads"]
        thread = UUID(name)
        forked = bool(purging.folding_through([thread]))
        found = erasure_counts.count_whole(thread, head_seq, ranges, forked=forked)
    else:
        found = erasure_counts.count_records(ranges)
    goes = found.get("snapshots", Found(goes=0))
    found["snapshots"] = replace(goes, derives=count_made_anew(scope, frozen))
    return found


def count_left(row: Erasure) -> dict[str, int]:
    """Count what of an erasure's targets still holds something, by place."""
    found = count(row.subject_id, row.scope, orjson.loads(row.targets))
    return {name: each.goes for name, each in found.items()}


def count_made_anew(scope: str, frozen: Targets, *, by: UUID | None = None) -> int:
    """Count snapshots of threads that stay which hold something of the targets.

    With the id of an erasure: those that stand up to its last order, hence were made
    anew by it. Two queries for two hundred threads, and one a generation of forks.
    """
    gone = {UUID(of) for of, _ in frozen["heads"]} if scope == Scope.THREAD else ()
    heads = [(UUID(of), 1, head) for of, head in frozen["heads"]]
    held = erasing.concerned([*heads, *ranges_of(frozen)])
    since = {row.id: seq for row, seq in held.items() if row.id not in gone}
    found = 0
    for start in range(0, len(since), _AT_ONCE):
        batch = [*since][start : start + _AT_ONCE]
        until = _last_orders(batch, by) if by else {}
        rows = Snapshot.objects.filter(thread__in=batch).values_list("thread", "seq")
        found += sum(
            seq >= since[thread] and (by is None or seq <= until.get(thread, 0))
            for thread, seq in rows
        )
    return found


def _last_orders(threads: Sequence[UUID], by: UUID) -> dict[UUID, int]:
    """Return the seq of the last order of an erasure in each of these threads."""
    orders = Event.objects.filter(thread__in=threads, actor=erasing.actor(by))
    rows = orders.order_by().values("thread").annotate(last=Max("seq"))
    return dict(rows.values_list("thread", "last"))


def iter_residue(scope: str, *, forked: bool) -> Iterator[str]:
    """Iterate over words of what will be left out of reach; the receipt dates them."""
    yield from ("backups", "free_blocks", "process_memory", "replies_sent")
    yield from ("downloads", "recipients")
    if scope == Scope.SUBJECT:
        yield "key_backups"
    if connection.vendor == "postgresql":
        # With the key only names are left there; without it sealed bytes as well.
        yield from ("database_free_space", "wal")
    if forked and scope == Scope.THREAD:
        yield "names_in_forks"


def _lasting(planned: Mapping[str, Any]) -> Any:
    """Return what of a plan does not change by itself."""
    passing = erasure_counts.get_passing()
    places = {
        name: place
        for name, place in planned.get("places", {}).items()
        if name not in passing
    }
    return places, planned.get("forks")
