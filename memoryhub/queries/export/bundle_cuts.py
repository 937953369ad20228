"""Cuts: the last event of each thread that goes into a subject's bundle. Never writes.

Events never change, so all reads up to a cut show one moment, however late they come.
No transaction has to stay open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from memoryhub.errors import SubjectErasedError
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import blind_index, keys

GONE = (Subject.State.ERASING, Subject.State.ERASED)


class ThreadCut(NamedTuple):
    """A thread up to its last event in a bundle."""

    id: UUID
    name: str
    status: str
    head_seq: int
    head_hash: bytes
    parent: UUID | None
    parent_seq: int | None
    created_at: datetime
    #: Salt that blanks the thread's names in the bundle; None leaves the names.
    blank: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCut:
    """Threads of a subject that a bundle holds, each up to its last event."""

    subject: Subject
    instance: UUID
    taken_at: datetime
    #: Parents before their forks; then by age.
    parts: tuple[ThreadCut, ...]

    @property
    def events(self) -> int:
        return sum(part.head_seq for part in self.parts)


def take(subject: Subject) -> BundleCut:
    """Take the cut: all threads of the subject, read by one statement. Three queries.

    Raises SubjectErasedError.
    """
    # Read the subject before its threads: a later erasure moves its epoch on.
    row = Subject.objects.get(id=subject.id)
    if row.state in GONE:
        raise SubjectErasedError
    parts = {part.id: part for part in _iter_parts(row)}
    parents = {part.id: part.parent for part in parts.values()}
    erased = {part.id for part in parts.values() if part.status == "erased"}
    nameless = erased - _find_ancestors(parents, parents.keys() - erased)
    for thread in erased:
        name = _blank_name(row.project_id, parts[thread].name)
        parts[thread] = parts[thread]._replace(name=name)
    for thread in parts.keys() - nameless:
        parts[thread] = parts[thread]._replace(blank=None)
    return BundleCut(
        subject=row,
        instance=Instance.objects.values_list("id", flat=True).get(),
        taken_at=clock.now(),
        parts=tuple(sorted(parts.values(), key=_ThreadOrder(parents).build_sort_key)),
    )


def refresh_cut(cut: ThreadCut) -> ThreadCut:
    """Return the thread's cut moved to its present head. One query."""
    rows = Thread.objects.filter(id=cut.id)
    seq, digest, status = rows.values_list("head_seq", "head_hash", "status").get()
    return cut._replace(head_seq=seq, head_hash=bytes(digest), status=status)


def _iter_parts(subject: Subject) -> Iterator[ThreadCut]:
    rows = Thread.objects.filter(project=subject.project_id, subject=subject.id)
    columns = rows.exclude(status=Thread.Status.IMPORTING).values_list(
        *("id", "name", "status", "head_seq", "head_hash"),
        *("parent_id", "fork_seq", "created_at", "name_salt"),
    )
    for row in columns.iterator(chunk_size=2_000):
        yield ThreadCut(*row)._replace(blank=bytes(row[-1]))


def _find_ancestors(
    parents: dict[UUID, UUID | None], threads: Collection[UUID]
) -> set[UUID]:
    """Find all ancestors of these threads, whose names forks need to fold."""
    found: set[UUID] = set()
    for thread in threads:
        parent = parents[thread]
        while parent is not None and parent not in found:
            found.add(parent)
            parent = parents.get(parent)
    return found


def _blank_name(project: UUID, name: str) -> str:
    """Return the name that the eraser gives to an erased thread's row."""
    if name.startswith("~"):
        return name
    return (
        "~" + blind_index.digest_thread_name(keys.get_project_key(project), name).hex()
    )


class _ThreadOrder:
    """Order of threads: by depth, age and name, which are equal on every instance."""

    def __init__(self, parents: dict[UUID, UUID | None]) -> None:
        self._parents = parents

    def build_sort_key(self, part: ThreadCut) -> tuple[int, datetime, str]:
        depth, parent = 0, part.parent
        while parent is not None:
            depth, parent = depth + 1, self._parents.get(parent)
        return depth, part.created_at, part.name
