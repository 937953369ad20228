"""Importing: threads whose events come from another place, with their seqs and times.

They are sealed and chained anew, folded, and written as `importing`, which nobody
sees. All of them appear at once, when `open_all` says so, or none does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from memoryhub.errors import (
    HomeTakenError,
    NameTakenError,
    ProjectDeletedError,
    ProjectFullError,
    StaleError,
    SubjectErasedError,
    SubjectRestrictedError,
)
from memoryhub.journal import audit
from memoryhub.journal.forget import purging
from memoryhub.journal.log import chain, fence, snapshots
from memoryhub.journal.log.heads import Head
from memoryhub.journal.rows import (
    listed_columns,
    projections,
    statements,
    tombstones,
    totals,
)
from memoryhub.journal.rows.rows import DerivationRow, EventRow
from memoryhub.journal.writing import sealing
from memoryhub.journal.writing.writer import run
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.privacy import tables
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys

#: Events in one transaction, and rows that go in one.
BATCH = 1_000
#: Of sealed content in one transaction, so that other writers never wait long.
BATCH_BYTES = 8 * 1_048_576
#: What was sealed elsewhere is not known here; the digest of nothing stands for it.
GONE = hashlib.sha256(b"").digest()
_CLOSED = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(slots=True, kw_only=True)
class Arrival:
    """A thread on its way in."""

    head: Head
    #: JSON of where it comes from.
    origin: str
    #: Its last event erases it: it folds, and leaves no rows beside its journal.
    bare: bool = False
    row: Thread | None = None
    events: list[EventRow] = field(default_factory=list)
    size: int = 0
    rows: projections.Rows = field(default_factory=projections.Rows)
    kept: list[Snapshot] = field(default_factory=list)

    def add(
        self,
        recorded: Recorded,
        payload: bytes | None,
        *,
        state: ThreadState,
        erased_by: int | None,
        key: keys.SubjectKeys,
    ) -> None:
        """Add one more event, after which the thread is in this state."""
        if payload is None and recorded.event.sealed:
            row = _erased_row(self.head, recorded, erased_by)
        else:
            row = sealing.sealed_row(self.head, recorded, payload, key=key)
        if not self.bare:
            projections.project(self.rows, self.head.state, recorded, state)
        kind = recorded.event.event_type
        self.head = replace(self.head, state=state, chain=row.chain, last_type=kind)
        self.events.append(row)
        self.size += len(payload or b"")
        if not self.bare and snapshots.due(state, kept_seq=self.head.kept_seq):
            self.kept.append(snapshots.snapshot_row(state, key=key))
            self.head = replace(self.head, kept_seq=state.seq)

    @property
    def full(self) -> bool:
        return len(self.events) >= BATCH or self.size >= BATCH_BYTES


def write(arrival: Arrival, *, epoch: int) -> None:
    """Commit what has arrived so far.

    Raises what `require_welcome` does, NameTakenError and ThreadErasedError for its
    name, and StaleError when something of the subject was erased meanwhile.
    """
    run(partial(_write, arrival, epoch))
    arrival.events, arrival.size, arrival.kept = [], 0, []
    arrival.rows = projections.Rows()


def hold_back(arrival: Arrival, there: Container[UUID]) -> list[DerivationRow]:
    """Take out and return what was made of threads that are not there yet.

    A turn may carry a block of a home thread that was made after its own.
    """
    every = arrival.rows.derivations
    arrival.rows.derivations = [row for row in every if row.thread_id in there]
    return [row for row in every if row.thread_id not in there]


def require_welcome(subject: UUID, *, epoch: int) -> None:
    """Raise unless an import may write for the subject; in the writer's transaction."""
    fenced = fence.hold([subject]).get(subject)
    if fenced is None or fenced.state in _CLOSED:
        raise SubjectErasedError
    fenced.require_project()
    if fenced.state == Subject.State.RESTRICTED:
        raise SubjectRestrictedError
    if fenced.epoch != epoch:
        raise StaleError


def _write(arrival: Arrival, epoch: int) -> None:
    state = arrival.head.state
    with transaction.atomic():
        require_welcome(state.subject, epoch=epoch)
        if arrival.row is None:
            _insert(arrival)
        else:
            _update(arrival.row, arrival)
        statements.EVENTS.rows(arrival.events)
        if not arrival.bare:
            projections.write(arrival.rows)
            projections.write_labels([state])
        Snapshot.objects.bulk_create(arrival.kept)


def _insert(arrival: Arrival) -> None:
    head = arrival.head
    name = (head.state.project, head.name)
    dead = tombstones.dead_names([name]).get(name)
    if dead and not head.state.home:
        raise dead.refusal(None)
    row = Thread(
        id=head.state.id,
        project_id=head.state.project,
        name=head.name,
        name_salt=head.salt,
        origin=arrival.origin,
    )
    try:
        with transaction.atomic():
            _update(row, arrival, force_insert=True)
    except IntegrityError:
        raise NameTakenError from None
    arrival.row = row


def _update(row: Thread, arrival: Arrival, **how: Any) -> None:
    head = arrival.head
    columns = projections.columns(head.state)
    for name, value in (columns | listed_columns.copied(columns)).items():
        setattr(row, name, value)
    row.head_hash, row.last_event_type = head.chain, head.last_type
    row.status = Thread.Status.IMPORTING
    # Until it is open: when it was last written to, by which leftovers are known.
    row.listed_at = clock.now()
    row.save(**how)


def _erased_row(head: Head, recorded: Recorded, erased_by: int | None) -> EventRow:
    """The row of an event whose content is gone for good."""
    event = recorded.event
    assert erased_by is not None
    body = chain.plain_body(event)
    thread = head.state.id
    canonical = chain.envelope(body, recorded, thread=thread, salt=head.salt)
    return EventRow(
        thread_id=thread,
        seq=recorded.seq,
        type=event.event_type,
        at=recorded.at,
        actor=recorded.actor,
        body=chain.text_of(body),
        payload=None,
        payload_digest=GONE,
        erased_by=erased_by,
        chain=chain.link(head.chain, canonical, GONE),
        page=sealing.page_of(event),
    )


def open_all(
    arrived: Sequence[Head],
    subject: Subject,
    *,
    actor: str,
    held_back: Sequence[DerivationRow] = (),
) -> None:
    """Let everybody see these threads, all in one transaction, which records it.

    And what was held back, but for what was made of, or is, what was erased since.
    Raises what `require_welcome` does, ProjectFullError, and HomeTakenError for a home
    thread of a subject that got one meanwhile.
    """
    ids = [head.state.id for head in arrived]
    # They are complete, and nobody else writes to them.
    found = [totals.count_threads(Q(thread__in=batch)) for batch in _batches(ids)]
    kept = list[DerivationRow]()
    for begin in range(0, len(held_back), BATCH):
        kept += _standing(held_back[begin : begin + BATCH])
    run(partial(_open_all, arrived, subject, actor, found, kept))


def _standing(rows: Sequence[DerivationRow]) -> Iterator[DerivationRow]:
    sources = [(row.thread_id, row.source_seq) for row in rows]
    made = [(row.derived_thread, row.derived_seq) for row in rows]
    events = Event.objects.at_places([*dict.fromkeys([*sources, *made])])
    places = events.filter(erased_by=None).values_list("thread_id", "seq")
    there = {*places}
    for row, source, result in zip(rows, sources, made, strict=True):
        if source in there and result in there:
            yield row


def _open_all(
    arrived: Sequence[Head],
    subject: Subject,
    actor: str,
    found: list[totals.Totals],
    held_back: Sequence[DerivationRow],
) -> None:
    with transaction.atomic():
        require_welcome(subject.id, epoch=subject.epoch)
        _count(subject.project_id, sum(not head.state.home for head in arrived))
        statements.DERIVATIONS.rows(held_back)
        for status, threads in _by_status(arrived).items():
            for batch in _batches(threads):
                rows = Thread.objects.filter(id__in=batch)
                try:
                    rows.update(status=status, listed_at=F("last_event_at"))
                except IntegrityError:
                    raise HomeTakenError from None
        totals.arrive(subject.id, found, [head.state.status for head in arrived])
        audit.append(
            actor=actor,
            action="subject.imported",
            project=subject.project_id,
            target_kind="subject",
            target_id=str(subject.id),
            subject=subject.id,
            count=sum(head.state.seq for head in arrived),
        )


def purge(arrived: Iterable[Head]) -> None:
    """Take what no fork reads of those that had been erased, now that all are open."""
    for head in arrived:
        state = head.state
        if state.status == "erased":
            batches = partial(purging.thread_batches, state.id, by=state.seq)
            while run(partial(purging.take_some, batches)):
                pass


def _count(project: UUID, threads: int) -> None:
    row = Project.objects.select_for_update().get(id=project)
    if row.state != Project.State.ACTIVE:
        raise ProjectDeletedError
    if row.thread_count + threads > row.max_threads:
        raise ProjectFullError
    row.thread_count += threads
    row.save(update_fields=["thread_count"])


def _by_status(arrived: Iterable[Head]) -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = {}
    for head in arrived:
        found.setdefault(head.state.status, []).append(head.state.id)
    return found


def remove(threads: Iterable[UUID]) -> int:
    """Delete threads that were never opened, with all rows; how many.

    In short transactions; a repeat goes on where one was killed. One that is open is
    left alone: no trigger lets its events go.
    """
    removed = 0
    for batch in _batches([*threads]):
        rows = Thread.objects.filter(id__in=batch, status=Thread.Status.IMPORTING)
        ids = list(rows.values_list("id", flat=True))
        for model, privacy in tables().items():
            if privacy.thread == "thread":
                _delete(model._default_manager.filter(thread__in=ids))
        # Forks refer to their parents, and go together with them.
        run(partial(rows.update, parent=None))
        _delete(Thread.objects.filter(id__in=ids))
        removed += len(ids)
    return removed


def _delete(rows: QuerySet[Any]) -> None:
    while batch := list(rows.values_list("pk", flat=True)[:BATCH]):
        doomed = rows.model._default_manager.filter(pk__in=batch)
        run(doomed.delete)


def _batches(threads: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    for begin in range(0, len(threads), BATCH):
        yield threads[begin : begin + BATCH]


def origin(*, instance: UUID, thread: UUID, head_hash: str) -> str:
    """Return where an imported thread comes from, as its row keeps it."""
    return orjson.dumps([str(instance), str(thread), head_hash]).decode()


def ages(project: UUID) -> Iterator[tuple[UUID, tuple[UUID, datetime]]]:
    """Yield threads not open yet, each with its subject and last write."""
    rows = Thread.objects.filter(project=project, status=Thread.Status.IMPORTING)
    for thread, subject, at in rows.values_list("id", "subject_id", "listed_at"):
        yield thread, (subject, at)
