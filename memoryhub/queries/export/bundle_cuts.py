"""Cuts: up to where each thread of a subject goes into a bundle. Never writes.

Events never change, so whatever is read up to a cut, however much later, is of one
moment; no transaction has to stay open for it.
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
    """A thread as far as it is in a bundle."""

    id: UUID
    name: str
    status: str
    head_seq: int
    head_hash: bytes
    parent: UUID | None
    parent_seq: int | None
    created_at: datetime
    #: Of its names, which are blanked in the bundle; None where they stand.
    blank: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What a bundle is made of."""

    subject: Subject
    instance: UUID
    taken_at: datetime
    #: Parents before their forks; then by age.
    parts: tuple[ThreadCut, ...]

    @property
    def events(self) -> int:
        return sum(part.head_seq for part in self.parts)


def take(subject: Subject) -> Cut:
    """Take the cut: all threads of the subject, as of one statement. Three queries.

    Raises SubjectErasedError.
    """
    # Before the threads: what is erased of them after this moves the epoch on.
    row = Subject.objects.get(id=subject.id)
    if row.state in GONE:
        raise SubjectErasedError
    parts = {part.id: part for part in _parts(row)}
    parents = {part.id: part.parent for part in parts.values()}
    erased = {part.id for part in parts.values() if part.status == "erased"}
    nameless = erased - _ancestors(parents, parents.keys() - erased)
    for thread in erased:
        name = _blanked(row.project_id, parts[thread].name)
        parts[thread] = parts[thread]._replace(name=name)
    for thread in parts.keys() - nameless:
        parts[thread] = parts[thread]._replace(blank=None)
    return Cut(
        subject=row,
        instance=Instance.objects.values_list("id", flat=True).get(),
        taken_at=clock.now(),
        parts=tuple(sorted(parts.values(), key=_Ages(parents).place)),
    )


def moved_on(cut: ThreadCut) -> ThreadCut:
    """Return the thread as it is by now. One query."""
    rows = Thread.objects.filter(id=cut.id)
    seq, digest, status = rows.values_list("head_seq", "head_hash", "status").get()
    return cut._replace(head_seq=seq, head_hash=bytes(digest), status=status)


def _parts(subject: Subject) -> Iterator[ThreadCut]:
    rows = Thread.objects.filter(project=subject.project_id, subject=subject.id)
    columns = rows.exclude(status=Thread.Status.IMPORTING).values_list(
        *("id", "name", "status", "head_seq", "head_hash"),
        *("parent_id", "fork_seq", "created_at", "name_salt"),
    )
    for row in columns.iterator(chunk_size=2_000):
        yield ThreadCut(*row)._replace(blank=bytes(row[-1]))


def _ancestors(
    parents: dict[UUID, UUID | None], threads: Collection[UUID]
) -> set[UUID]:
    """Of these threads; what they fold through keeps its names."""
    found: set[UUID] = set()
    for thread in threads:
        parent = parents[thread]
        while parent is not None and parent not in found:
            found.add(parent)
            parent = parents.get(parent)
    return found


def _blanked(project: UUID, name: str) -> str:
    """As the row will be named, once the eraser has come to it."""
    if name.startswith("~"):
        return name
    return "~" + blind_index.thread_name(keys.project_key(project), name).hex()


class _Ages:
    """The order of threads, by nothing that another instance would give otherwise."""

    def __init__(self, parents: dict[UUID, UUID | None]) -> None:
        self._parents = parents

    def place(self, part: ThreadCut) -> tuple[int, datetime, str]:
        depth, parent = 0, part.parent
        while parent is not None:
            depth, parent = depth + 1, self._parents.get(parent)
        return depth, part.created_at, part.name
