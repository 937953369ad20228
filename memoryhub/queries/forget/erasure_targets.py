"""What an erasure is about: threads that go whole, records of those that stay.

Never writes. Frozen in the plan, as JSON values, and gone by from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from memoryhub.models.erasures import Erasure
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_counts, erasure_snapshots
from memoryhub.queries.forget.erasure_counts import Found, Part, Range

Scope = Erasure.Scope
#: {"heads": [[thread, seq], …], "ranges": [[thread, first, last], …]}
Targets = Mapping[str, Any]


def targets(
    subject: Subject,
    scope: str,
    *,
    thread: Thread | None = None,
    before: datetime | None = None,
    seq: int | None = None,
) -> Targets:
    """What goes, in a fixed order. One query, and those of the closure."""
    ranges = _ranges(subject, scope, thread, before, seq)
    return {
        "heads": [[str(of), head] for of, head in _heads(subject, scope, thread)],
        "ranges": [[str(of), first, last] for of, first, last in ranges],
    }


def threads_of(frozen: Targets) -> set[UUID]:
    """The threads that lose something."""
    return {UUID(of) for of, *_ in (*frozen["heads"], *frozen["ranges"])}


def ranges_of(frozen: Targets) -> list[Range]:
    return [(UUID(of), first, last) for of, first, last in frozen["ranges"]]


def count(subject: UUID, scope: str, frozen: Targets) -> dict[str, Found]:
    """What of the targets still holds something, by place."""
    thread, head_seq = None, 0
    if scope == Scope.THREAD:
        ((name, head_seq),) = frozen["heads"]
        thread = UUID(name)
    part = Part(
        subject=subject,
        thread=thread,
        head_seq=head_seq,
        forked=thread is not None and bool(erasure_closures.count_live_forks([thread])),
        ranges=ranges_of(frozen),
    )
    found = erasure_counts.count(scope, part)
    if scope != Scope.SUBJECT:
        goes = found.get("snapshots", Found(goes=0))
        derives = count_made_anew(scope, frozen)
        found["snapshots"] = replace(goes, derives=derives)
    return found


def count_made_anew(scope: str, frozen: Targets, *, by: UUID | None = None) -> int:
    """Snapshots of threads that stay, as `count_snapshots` has it."""
    gone = {UUID(of) for of, _ in frozen["heads"]} if scope == Scope.THREAD else ()
    heads = [(UUID(of), 1, head) for of, head in frozen["heads"]]
    ranges = [*heads, *ranges_of(frozen)]
    return erasure_snapshots.count_snapshots(ranges, but=gone, by=by)


def iter_residue(scope: str, *, forked: bool) -> Iterator[str]:
    """Words of what will be left where we do not reach; the receipt dates them."""
    yield from ("backups", "free_blocks", "process_memory", "replies_sent")
    yield from ("downloads", "recipients")
    if scope == Scope.SUBJECT:
        yield "key_backups"
    if connection.vendor == "postgresql":
        # With the key only names are left there; without it sealed bytes as well.
        yield from ("database_free_space", "wal")
    if forked and scope == Scope.THREAD:
        yield "names_in_forks"


def _heads(
    subject: Subject, scope: str, thread: Thread | None
) -> Sequence[tuple[UUID, int]]:
    if scope == Scope.SUBJECT:
        rows = Thread.objects.filter(subject=subject)
    elif scope == Scope.THREAD:
        assert thread is not None
        rows = Thread.objects.filter(id=thread.id)
    else:
        return ()
    return [*rows.order_by("id").values_list("id", "head_seq")]


def _ranges(
    subject: Subject,
    scope: str,
    thread: Thread | None,
    before: datetime | None,
    seq: int | None,
) -> Sequence[Range]:
    """Of threads that stay; sources with all that was made of them."""
    if scope == Scope.SUBJECT:
        return ()
    if scope == Scope.BEFORE:
        assert before is not None
        return erasure_closures.list_before(subject, before)
    assert thread is not None
    if scope == Scope.THREAD:
        return erasure_closures.list_derived(thread)
    assert seq is not None
    return erasure_closures.list_record(thread, seq)
