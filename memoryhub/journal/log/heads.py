"""Heads: the newest state of each thread that this process writes to.

Heads are kept in memory, brought up to date inside each transaction, and moved by
compare-and-set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Self
from uuid import UUID

from django.db.models import F

from memoryhub.errors import CorruptError, NotFoundError, Refusal, ThreadErasedError
from memoryhub.journal.log import log
from memoryhub.journal.log.chain import GENESIS
from memoryhub.journal.log.orders import Address
from memoryhub.journal.rows import listed_columns, projections, statements
from memoryhub.journal.rows.projections import ProjectedRows, RequestTokens
from memoryhub.journal.rows.statements import Move
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.vault.registry.lru import Lru

#: Maximum lag between a thread's newest event and its place in lists.
LISTED_EVERY = timedelta(seconds=10)
#: KiB of states kept in memory: 500 threads with 50 resident pages each.
KEPT_KIB = 32_000


class MovedError(Exception):
    """Another process moved a thread between our read and our write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHead:
    """A thread's newest state, and the columns of its row that the writer needs."""

    state: ThreadState
    name: str
    salt: bytes
    chain: bytes
    last_type: str
    listed_at: datetime | None
    #: Seq of the newest snapshot that this writer knows of.
    kept_seq: int = 0

    @classmethod
    def build_new(cls, state: ThreadState, *, name: str, salt: bytes) -> Self:
        return cls(
            state=state,
            name=name,
            salt=salt,
            chain=GENESIS,
            last_type="",
            listed_at=None,
        )


class Heads:
    """Heads by thread. Owned by one writer; not shared between threads."""

    def __init__(self) -> None:
        self._kept: Lru[UUID, ThreadHead] = Lru(
            KEPT_KIB, name="states of threads, for writing", unit_bytes=1024
        )
        #: Heads of the threads that the current batch names, or why a thread can't be
        #: written.
        self._held: dict[tuple[UUID, str], ThreadHead | Refusal] = {}
        #: Subjects of those threads.
        self._owners: dict[tuple[UUID, str], UUID] = {}

    def refresh(self, addresses: Iterable[Address], *, locked: bool) -> None:
        """Bring the heads of these threads up to date. One query, one for each tail."""
        names: dict[UUID, set[str]] = {}
        for address in addresses:
            names.setdefault(address.project, set()).update(address.names)
        self._held, self._owners = {}, {}
        for row in statements.select_heads(names, locked=locked):
            thread, project, name, subject, seq, digest = row
            self._held[project, name] = self._load_current(thread, seq, digest)
            self._owners[project, name] = subject

    def list_held(self) -> list[ThreadHead]:
        return [head for head in self._held.values() if isinstance(head, ThreadHead)]

    def has_thread(self, address: Address) -> bool:
        """Return whether any thread has one of the address's names, even if damaged."""
        return any(self._is_reachable(address, name) for name in address.names)

    def find(self, address: Address, name: str) -> ThreadHead | None:
        """Return the head of the thread with that name.

        Raises the Refusal of a damaged thread. A name used by a key that is bound to a
        subject finds threads of that subject only; even damage of another's thread is
        not shown.
        """
        if not self._is_reachable(address, name):
            return None
        head = self._held[address.project, name]
        if isinstance(head, Refusal):
            raise head
        return head

    def _is_reachable(self, address: Address, name: str) -> bool:
        owner = self._owners.get((address.project, name))
        return owner is not None and address.can_reach(owner)

    def accept(self, heads: Iterable[ThreadHead]) -> None:
        """Remember the heads that are now on disk."""
        for head in heads:
            self._kept.put(head.state.id, head, weight=head.state.size)

    def _load_current(
        self, thread: UUID, seq: int, digest: bytes
    ) -> ThreadHead | Refusal:
        """Return the kept head, after folding the missing tail onto it if needed."""
        kept = self._kept.get(thread)
        if kept and kept.state.seq == seq and kept.chain == digest:
            return kept
        try:
            head = _load_head(thread, kept)
        except Refusal as refusal:
            # One damaged thread must not fail the batch for all others.
            return refusal
        self.accept([head])
        return head


def _load_head(thread: UUID, kept: ThreadHead | None) -> ThreadHead:
    row = Thread.objects.select_related("subject").get(id=thread)
    if row.status == Thread.Status.ERASED:
        # An erased thread is never folded again: its names are being blanked, event by
        # event.
        raise ThreadErasedError
    if row.status == Thread.Status.IMPORTING:
        # The journal gives the status that the thread will have once opened.
        raise NotFoundError
    folded = _catch_up(row, kept)
    if folded.chain != bytes(row.head_hash):
        raise CorruptError(seq=row.head_seq)
    return ThreadHead(
        state=folded.state,
        name=row.name,
        salt=bytes(row.name_salt),
        chain=folded.chain,
        last_type=row.last_event_type,
        listed_at=row.listed_at,
        kept_seq=folded.kept_seq,
    )


def write(
    moved: Mapping[UUID, tuple[ThreadHead, ThreadHead]], rows: ProjectedRows
) -> None:
    """Insert new threads, update the others; add the tokens of requests in `rows`.

    Raises MovedError if another process moved a thread.
    """
    new = [after for before, after in moved.values() if before.state.seq == 0]
    if new:
        Thread.objects.bulk_create([_build_row(head, rows) for head in new])
    # Sort the updates, so that two processes can't wait for each other.
    pairs = [moved[thread] for thread in sorted(moved, key=attrgetter("int"))]
    pairs = [pair for pair in pairs if pair[0].state.seq]
    for ordinary, run in groupby(pairs, key=lambda pair: _is_plain_append(*pair)):
        if ordinary:
            _append_threads(list(run), rows)
        else:
            for before, after in run:
                _move_thread(before, after, rows)
    projections.write_labels(
        after.state
        for before, after in moved.values()
        if _has_new_labels(before, after)
    )


def refresh_listed_at(head: ThreadHead) -> ThreadHead:
    """Return the head with its time in lists brought up to date, if that is due."""
    at = head.state.at
    if at is None or (head.listed_at and at - head.listed_at < LISTED_EVERY):
        return head
    return replace(head, listed_at=at)


def _catch_up(row: Thread, kept: ThreadHead | None) -> log.FoldedThread:
    if kept and kept.state.seq < row.head_seq:
        start = log.FoldedThread(
            state=kept.state, chain=kept.chain, kept_seq=kept.kept_seq
        )
        folded = log.follow(start, up_to=row.head_seq)
        if folded.chain == bytes(row.head_hash):
            return folded
    # Never loaded, or the database was replaced: fold the thread anew.
    return log.fold_thread(row, row.head_seq)


def _build_row(head: ThreadHead, rows: ProjectedRows) -> Thread:
    state = head.state
    assert state.at is not None
    columns = projections.build_columns(state)
    row = Thread(
        id=state.id,
        project_id=state.project,
        name=head.name,
        name_salt=head.salt,
        head_hash=head.chain,
        last_event_type=head.last_type,
        listed_at=state.at,
        levels_due=projections.needs_levels(state),
        observer_due=projections.needs_observer(state),
        **columns,
        **listed_columns.copy_columns(columns),
    )
    projections.add_request_tokens(row, rows)
    return row


def _append_threads(
    pairs: Sequence[tuple[ThreadHead, ThreadHead]], rows: ProjectedRows
) -> None:
    moves = [_build_move_values(*pair, rows) for pair in pairs]
    if _APPENDED.update(moves) != len(pairs):
        raise MovedError


def _move_thread(before: ThreadHead, after: ThreadHead, rows: ProjectedRows) -> None:
    changes = projections.diff_columns(before.state, after.state)
    more = rows.requests.get(after.state.id, RequestTokens())
    for name, tokens in zip(projections.ADDED_COLUMNS, more, strict=True):
        changes[name] = F(name) + tokens
    changes["levels_due"] = projections.needs_levels(after.state)
    changes["observer_due"] = projections.needs_observer(after.state)
    if after.last_type != before.last_type:
        changes["last_event_type"] = after.last_type
    if after.listed_at != before.listed_at:
        changes["listed_at"] = after.listed_at
        changes |= listed_columns.copy_columns(changes)
    stored = Thread.objects.filter(id=after.state.id, head_seq=before.state.seq)
    if not stored.update(**changes, head_hash=after.chain):
        raise MovedError


_APPENDED = Move(
    *projections.APPEND_COLUMNS,
    "levels_due",
    "observer_due",
    "head_hash",
    "last_event_type",
    added=projections.ADDED_COLUMNS,
)


def _is_plain_append(before: ThreadHead, after: ThreadHead) -> bool:
    """Return whether the thread only grew: the case of nearly every append."""
    if before.state.seq == 0 or before.listed_at != after.listed_at:
        return False
    return projections.is_plain_append(before.state, after.state)


def _build_move_values(
    before: ThreadHead, after: ThreadHead, rows: ProjectedRows
) -> tuple[object, ...]:
    state = after.state
    moved = projections.build_append_values(state)
    due = projections.needs_levels(state), projections.needs_observer(state)
    more = rows.requests.get(state.id, RequestTokens())
    new = (*moved, *due, after.chain, after.last_type, *more)
    return (*new, state.id, before.state.seq)


def _has_new_labels(before: ThreadHead, after: ThreadHead) -> bool:
    old = before.state.labels if before.state.seq else ()
    return old != after.state.labels
