"""Import of threads whose events come from another instance, with seqs and times.

Events are sealed and chained anew, folded, and written to threads with the status
`importing`, which nobody sees. `open_all` shows all of them at once, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
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
from memoryhub.journal.log.heads import ThreadHead
from memoryhub.journal.rows import (
    listed_columns,
    projections,
    statements,
    tombstones,
    totals,
)
from memoryhub.journal.rows.rows import DerivationRow, EventTableRow
from memoryhub.journal.writing import sealing
from memoryhub.journal.writing.writer import run
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.privacy import list_declared_models
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys

#: Events in one transaction, and rows in one statement.
BATCH = 1_000
#: Bytes of sealed content in one transaction, so that other writers never wait long.
BATCH_BYTES = 8 * 1_048_576
#: The digest of nothing stands for content erased elsewhere, whose digest is unknown.
GONE = hashlib.sha256(b"").digest()
_CLOSED = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(slots=True, kw_only=True)
class Arrival:
    """A thread that is being imported."""

    head: ThreadHead
    #: JSON of the thread's origin: instance, thread and head hash.
    origin: str
    #: The last event erases the thread: it is folded, but gets no rows besides its
    #: journal.
    bare: bool = False
    row: Thread | None = None
    events: list[EventTableRow] = field(default_factory=list)
    size: int = 0
    rows: projections.ProjectedRows = field(default_factory=projections.ProjectedRows)
    kept: list[Snapshot] = field(default_factory=list)

    def add(
        self,
        recorded: RecordedEvent,
        payload: bytes | None,
        *,
        state: ThreadState,
        erased_by: int | None,
        key: keys.SubjectKeys,
    ) -> None:
        """Add one event, after which the thread is in `state`."""
        if payload is None and recorded.event.sealed:
            row = _build_erased_row(self.head, recorded, erased_by)
        else:
            row = sealing.seal_row(self.head, recorded, payload, key=key)
        if not self.bare:
            projections.project(self.rows, self.head.state, recorded, state)
        kind = recorded.event.event_type
        self.head = replace(self.head, state=state, chain=row.chain, last_type=kind)
        self.events.append(row)
        self.size += len(payload or b"")
        if not self.bare and snapshots.is_due(state, kept_seq=self.head.kept_seq):
            self.kept.append(snapshots.build_snapshot_row(state, key=key))
            self.head = replace(self.head, kept_seq=state.seq)

    @property
    def is_full(self) -> bool:
        return len(self.events) >= BATCH or self.size >= BATCH_BYTES


def write(arrival: Arrival, *, epoch: int) -> None:
    """Commit the events that have arrived so far, and empty the buffers.

    Raises what `require_writable` does, NameTakenError and ThreadErasedError for the
    thread's name, and StaleError when something of the subject was erased meanwhile.
    """
    run(partial(_write_arrival, arrival, epoch))
    arrival.events, arrival.size, arrival.kept = [], 0, []
    arrival.rows = projections.ProjectedRows()


def hold_back(arrival: Arrival, there: Container[UUID]) -> list[DerivationRow]:
    """Remove and return derivations from threads that are not imported yet.

    A turn may carry a block of a home thread that was made after the turn's thread.
    """
    every = arrival.rows.derivations
    arrival.rows.derivations = [row for row in every if row.thread_id in there]
    return [row for row in every if row.thread_id not in there]


def require_writable(subject: UUID, *, epoch: int) -> None:
    """Raise unless an import may write for the subject; in the writer's transaction."""
    fenced = fence.hold([subject]).get(subject)
    if fenced is None or fenced.state in _CLOSED:
        raise SubjectErasedError
    fenced.require_project()
    if fenced.state == Subject.State.RESTRICTED:
        raise SubjectRestrictedError
    if fenced.epoch != epoch:
        raise StaleError


def _write_arrival(arrival: Arrival, epoch: int) -> None:
    state = arrival.head.state
    with transaction.atomic():
        require_writable(state.subject, epoch=epoch)
        if arrival.row is None:
            _insert_thread(arrival)
        else:
            _update_thread(arrival.row, arrival)
        statements.EVENTS.write(arrival.events)
        if not arrival.bare:
            projections.write(arrival.rows)
            projections.write_labels([state])
        Snapshot.objects.bulk_create(arrival.kept)


def _insert_thread(arrival: Arrival) -> None:
    head = arrival.head
    name = (head.state.project, head.name)
    dead = tombstones.find_dead_names([name]).get(name)
    if dead and not head.state.home:
        raise dead.build_refusal(None)
    row = Thread(
        id=head.state.id,
        project_id=head.state.project,
        name=head.name,
        name_salt=head.salt,
        origin=arrival.origin,
    )
    try:
        with transaction.atomic():
            _update_thread(row, arrival, force_insert=True)
    except IntegrityError:
        raise NameTakenError from None
    arrival.row = row


def _update_thread(row: Thread, arrival: Arrival, **how: Any) -> None:
    head = arrival.head
    columns = projections.build_columns(head.state)
    for name, value in (columns | listed_columns.copy_columns(columns)).items():
        setattr(row, name, value)
    projections.add_request_tokens(row, arrival.rows)
    row.head_hash, row.last_event_type = head.chain, head.last_type
    row.status = Thread.Status.IMPORTING
    # Until the thread is open: time of the last write, which identifies leftovers.
    row.listed_at = clock.now()
    row.save(**how)


def _build_erased_row(
    head: ThreadHead, recorded: RecordedEvent, erased_by: int | None
) -> EventTableRow:
    """Return the row of an event whose content is erased."""
    event = recorded.event
    assert erased_by is not None
    body = chain.to_plain_body(event)
    thread = head.state.id
    canonical = chain.build_envelope(body, recorded, thread=thread, salt=head.salt)
    return EventTableRow(
        thread_id=thread,
        seq=recorded.seq,
        type=event.event_type,
        at=recorded.at,
        actor=recorded.actor,
        body=chain.render_body(body),
        payload=None,
        payload_digest=GONE,
        erased_by=erased_by,
        chain=chain.link(head.chain, canonical, GONE),
        page=sealing.find_page(event),
    )


def open_all(
    arrived: Sequence[ThreadHead],
    subject: Subject,
    *,
    actor: str,
    held_back: Sequence[DerivationRow] = (),
) -> None:
    """Make these threads visible in one transaction, which also audits the import.

    Inserts held-back derivations, except those whose source or result was erased since.
    Raises what `require_writable` does, ProjectFullError, and HomeTakenError for a home
    thread of a subject that got one meanwhile.
    """
    ids = [head.state.id for head in arrived]
    # The threads are complete, and nobody else writes to them.
    found = [totals.count_threads(Q(thread__in=batch)) for batch in _split_batches(ids)]
    kept = list[DerivationRow]()
    for begin in range(0, len(held_back), BATCH):
        kept += _iter_standing(held_back[begin : begin + BATCH])
    run(partial(_open_all, arrived, subject, actor, found, kept))


def _iter_standing(rows: Sequence[DerivationRow]) -> Iterator[DerivationRow]:
    sources = [(row.thread_id, row.source_seq) for row in rows]
    made = [(row.derived_thread, row.derived_seq) for row in rows]
    events = Event.objects.filter_places([*dict.fromkeys([*sources, *made])])
    places = events.filter(erased_by=None).values_list("thread_id", "seq")
    there = {*places}
    for row, source, result in zip(rows, sources, made, strict=True):
        if source in there and result in there:
            yield row


def _open_all(
    arrived: Sequence[ThreadHead],
    subject: Subject,
    actor: str,
    found: list[totals.Totals],
    held_back: Sequence[DerivationRow],
) -> None:
    with transaction.atomic():
        require_writable(subject.id, epoch=subject.epoch)
        _count_threads(subject.project_id, sum(not head.state.home for head in arrived))
        statements.DERIVATIONS.write(held_back)
        for status, threads in _group_by_status(arrived).items():
            for batch in _split_batches(threads):
                rows = Thread.objects.filter(id__in=batch)
                try:
                    rows.update(status=status, listed_at=F("last_event_at"))
                except IntegrityError:
                    raise HomeTakenError from None
        totals.add_threads(subject.id, found, [head.state.status for head in arrived])
        audit.append(
            actor=actor,
            action="subject.imported",
            project=subject.project_id,
            target_kind="subject",
            target_id=str(subject.id),
            subject=subject.id,
            count=sum(head.state.seq for head in arrived),
        )


def purge(arrived: Iterable[ThreadHead]) -> None:
    """Purge the imported threads that were erased, except rows that live forks read."""
    for head in arrived:
        state = head.state
        if state.status == "erased":
            batches = partial(purging.iter_thread_batches, state.id, by=state.seq)
            while run(partial(purging.take_some, batches)):
                pass


def _count_threads(project: UUID, threads: int) -> None:
    row = Project.objects.select_for_update().get(id=project)
    if row.state != Project.State.ACTIVE:
        raise ProjectDeletedError
    if row.thread_count + threads > row.max_threads:
        raise ProjectFullError
    row.thread_count += threads
    row.save(update_fields=["thread_count"])


def _group_by_status(arrived: Iterable[ThreadHead]) -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = {}
    for head in arrived:
        found.setdefault(head.state.status, []).append(head.state.id)
    return found


def remove(threads: Iterable[UUID]) -> int:
    """Delete threads that were never opened, with all rows; return how many.

    In short transactions; a repeat continues where a run was killed. Leaves open
    threads alone: a trigger refuses to delete their events.
    """
    removed = 0
    for batch in _split_batches([*threads]):
        rows = Thread.objects.filter(id__in=batch, status=Thread.Status.IMPORTING)
        ids = list(rows.values_list("id", flat=True))
        for model, privacy in list_declared_models().items():
            if privacy.thread == "thread":
                _delete_rows(model._default_manager.filter(thread__in=ids))
        # Forks refer to their parents, so the loop first cuts that reference.
        run(partial(rows.update, parent=None))
        _delete_rows(Thread.objects.filter(id__in=ids))
        removed += len(ids)
    return removed


def _delete_rows(rows: QuerySet[Any]) -> None:
    while batch := list(rows.values_list("pk", flat=True)[:BATCH]):
        doomed = rows.model._default_manager.filter(pk__in=batch)
        if rows.model is Event:
            threads = {thread for thread, _ in batch}
            run(partial(_delete_events, doomed, threads))
        else:
            run(doomed.delete)


def _delete_events(doomed: QuerySet[Event], threads: Collection[UUID]) -> None:
    with transaction.atomic():
        statements.announce_removal(threads)
        doomed.delete()


def _split_batches(threads: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    for begin in range(0, len(threads), BATCH):
        yield threads[begin : begin + BATCH]


def render_origin(*, instance: UUID, thread: UUID, head_hash: str) -> str:
    """Return an imported thread's origin as JSON, the way its row stores it."""
    return orjson.dumps([str(instance), str(thread), head_hash]).decode()


def iter_unopened(project: UUID) -> Iterator[tuple[UUID, tuple[UUID, datetime]]]:
    """Yield threads that are not open yet, each with its subject and last write."""
    rows = Thread.objects.filter(project=project, status=Thread.Status.IMPORTING)
    for thread, subject, at in rows.values_list("id", "subject_id", "listed_at"):
        yield thread, (subject, at)
