"""Heads: the newest state of each thread that this process writes to.

Kept in memory, brought up to date inside each transaction, moved by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Self
from uuid import UUID

from memoryhub.errors import CorruptError, NotFoundError, Refusal, ThreadErasedError
from memoryhub.journal.log import log
from memoryhub.journal.log.chain import GENESIS
from memoryhub.journal.log.orders import Address
from memoryhub.journal.rows import listed_columns, projections, statements
from memoryhub.journal.rows.statements import Move
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.vault.registry.lru import Lru

#: How long a thread's place in lists may lag behind its newest event.
LISTED_EVERY = timedelta(seconds=10)
#: KiB of states kept in memory: 500 threads with 50 pages at hand each.
KEPT_KIB = 32_000


class MovedError(Exception):
    """Another process moved a thread between our read and our write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A thread's newest state, and what of its row the writer needs."""

    state: ThreadState
    name: str
    salt: bytes
    chain: bytes
    last_type: str
    listed_at: datetime | None
    #: Of the newest snapshot that this writer knows of.
    kept_seq: int = 0

    @classmethod
    def newborn(cls, state: ThreadState, *, name: str, salt: bytes) -> Self:
        return cls(
            state=state,
            name=name,
            salt=salt,
            chain=GENESIS,
            last_type="",
            listed_at=None,
        )


class Heads:
    """Heads by thread. One writer's own; not shared between threads."""

    def __init__(self) -> None:
        self._kept: Lru[UUID, Head] = Lru(
            KEPT_KIB, name="states of threads, for writing", unit_bytes=1024
        )
        #: Those that the batch at hand names, or why they can't be written to.
        self._held: dict[tuple[UUID, str], Head | Refusal] = {}
        #: Their subjects.
        self._owners: dict[tuple[UUID, str], UUID] = {}

    def refresh(self, addresses: Iterable[Address], *, locked: bool) -> None:
        """Bring the heads of these threads up to date. One query, and one a tail."""
        names: dict[UUID, set[str]] = {}
        for address in addresses:
            names.setdefault(address.project, set()).update(address.names)
        self._held, self._owners = {}, {}
        for row in statements.select_heads(names, locked=locked):
            thread, project, name, subject, seq, digest = row
            self._held[project, name] = self._current(thread, seq, digest)
            self._owners[project, name] = subject

    def held(self) -> list[Head]:
        return [head for head in self._held.values() if isinstance(head, Head)]

    def holds(self, address: Address) -> bool:
        """Return whether there is a thread of such a name, however damaged."""
        return any(self._owned(address, name) for name in address.names)

    def find(self, address: Address, name: str) -> Head | None:
        """Return the head of that name.

        Raises the Refusal that a damaged thread answers. What a bound key calls so is
        its subject's: another's is not even damaged.
        """
        if not self._owned(address, name):
            return None
        head = self._held[address.project, name]
        if isinstance(head, Refusal):
            raise head
        return head

    def _owned(self, address: Address, name: str) -> bool:
        owner = self._owners.get((address.project, name))
        return owner is not None and address.reaches(owner)

    def accept(self, heads: Iterable[Head]) -> None:
        """Remember what is now on disk."""
        for head in heads:
            self._kept.put(head.state.id, head, weight=head.state.size)

    def _current(self, thread: UUID, seq: int, digest: bytes) -> Head | Refusal:
        """The kept head if it is still true, else brought up by the missing tail."""
        kept = self._kept.get(thread)
        if kept and kept.state.seq == seq and kept.chain == digest:
            return kept
        try:
            head = _loaded(thread, kept)
        except Refusal as refusal:
            # One damaged thread must not void the batch of all others.
            return refusal
        self.accept([head])
        return head


def _loaded(thread: UUID, kept: Head | None) -> Head:
    row = Thread.objects.select_related("subject").get(id=thread)
    if row.status == Thread.Status.ERASED:
        # It is never folded again: its names are being blanked, one event at a time.
        raise ThreadErasedError
    if row.status == Thread.Status.IMPORTING:
        # Its journal says what it will be once it is opened.
        raise NotFoundError
    folded = _caught_up(row, kept)
    if folded.chain != bytes(row.head_hash):
        raise CorruptError(seq=row.head_seq)
    return Head(
        state=folded.state,
        name=row.name,
        salt=bytes(row.name_salt),
        chain=folded.chain,
        last_type=row.last_event_type,
        listed_at=row.listed_at,
        kept_seq=folded.kept_seq,
    )


def write(moved: Mapping[UUID, tuple[Head, Head]]) -> None:
    """Insert new threads, move the others. Raises MovedError if one was moved."""
    new = [after for before, after in moved.values() if before.state.seq == 0]
    if new:
        Thread.objects.bulk_create([_row(head) for head in new])
    # In one order everywhere, so that two processes can't wait for each other.
    pairs = [moved[thread] for thread in sorted(moved, key=attrgetter("int"))]
    pairs = [pair for pair in pairs if pair[0].state.seq]
    for ordinary, run in groupby(pairs, key=lambda pair: _ordinary(*pair)):
        if ordinary:
            _append(list(run))
        else:
            for before, after in run:
                _move(before, after)
    projections.write_labels(
        after.state for before, after in moved.values() if _relabelled(before, after)
    )


def listed(head: Head) -> Head:
    """Return the head with its time in lists brought up to date, if that is due."""
    at = head.state.at
    if at is None or (head.listed_at and at - head.listed_at < LISTED_EVERY):
        return head
    return replace(head, listed_at=at)


def _caught_up(row: Thread, kept: Head | None) -> log.Folded:
    if kept and kept.state.seq < row.head_seq:
        start = log.Folded(state=kept.state, chain=kept.chain, kept_seq=kept.kept_seq)
        folded = log.follow(start, up_to=row.head_seq)
        if folded.chain == bytes(row.head_hash):
            return folded
    # Never seen, or the database is not the one we knew: fold it anew.
    return log.state_at(row, row.head_seq)


def _row(head: Head) -> Thread:
    state = head.state
    assert state.at is not None
    columns = projections.columns(state)
    return Thread(
        id=state.id,
        project_id=state.project,
        name=head.name,
        name_salt=head.salt,
        head_hash=head.chain,
        last_event_type=head.last_type,
        listed_at=state.at,
        levels_due=projections.levels_due(state),
        observer_due=projections.observer_due(state),
        **columns,
        **listed_columns.copied(columns),
    )


def _append(pairs: Sequence[tuple[Head, Head]]) -> None:
    if _APPENDED.rows([_moving(*pair) for pair in pairs]) != len(pairs):
        raise MovedError


def _move(before: Head, after: Head) -> None:
    changes = projections.changed_columns(before.state, after.state)
    changes["levels_due"] = projections.levels_due(after.state)
    changes["observer_due"] = projections.observer_due(after.state)
    if after.last_type != before.last_type:
        changes["last_event_type"] = after.last_type
    if after.listed_at != before.listed_at:
        changes["listed_at"] = after.listed_at
        changes |= listed_columns.copied(changes)
    rows = Thread.objects.filter(id=after.state.id, head_seq=before.state.seq)
    if not rows.update(**changes, head_hash=after.chain):
        raise MovedError


_APPENDED = Move(
    *projections.MOVING, "levels_due", "observer_due", "head_hash", "last_event_type"
)


def _ordinary(before: Head, after: Head) -> bool:
    """Whether the thread only grew: the case of nearly every append."""
    if before.state.seq == 0 or before.listed_at != after.listed_at:
        return False
    return projections.settled(before.state, after.state)


def _moving(before: Head, after: Head) -> tuple[object, ...]:
    state = after.state
    moved = projections.moving_values(state)
    due = projections.levels_due(state), projections.observer_due(state)
    new = (*moved, *due, after.chain, after.last_type)
    return (*new, state.id, before.state.seq)


def _relabelled(before: Head, after: Head) -> bool:
    old = before.state.labels if before.state.seq else ()
    return old != after.state.labels
