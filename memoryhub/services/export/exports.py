"""Exports: a subject's memory as a bundle or as Markdown, limited and audited.

Limits hold in parallel and by day. The audit entry is written before the first byte:
no entry, no export.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from memoryhub import journal
from memoryhub.errors import ExportBusyError, RateError, Refusal
from memoryhub.journal import audit, cold
from memoryhub.journal.log import fence
from memoryhub.journal.writing.uses import uses
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.server.leases import Lease
from memoryhub.models.subjects import Subject
from memoryhub.queries.export import bundle_cuts, bundles, markdown_trees
from memoryhub.queries.export.bundle_cuts import BundleCut
from memoryhub.services.people import subjects
from memoryhub.vault.proof import signing

#: Lease of an export: one that sends nothing for so long makes room for another.
LEASE = timedelta(minutes=2)
BEAT_SECONDS = 20.0
DAY = timedelta(days=1)
#: Least bytes handed to a client at once.
PIECE_BYTES = 64 * 1024
_PREFIX = "export"
#: A signed bundle, or a tree of Markdown files for people and other tools.
ExportFormat = Literal["bundle", "markdown"]


@dataclass(slots=True, kw_only=True)
class BundleExport:
    """Export that is being sent; the caller must take all of it or close it."""

    id: UUID = field(default_factory=uuid7)
    cut: BundleCut
    kind: ExportFormat = "bundle"
    #: Bytes sent.
    sent: int = 0
    _beaten: float = field(default_factory=time.monotonic)
    _left: Iterator[bytes] | None = None
    #: Serialises threads that take parts.
    _lock: Lock = field(default_factory=Lock)

    @property
    def name(self) -> str:
        """File name, built from ids only."""
        suffix = "" if self.kind == "bundle" else f"-{self.kind}"
        return f"memoryhub-{self.cut.subject.id}{suffix}.zip"

    @property
    def reads(self) -> int:
        """Number of events that `stream` reads: a bundle reads each event twice."""
        return self.cut.events * (2 if self.kind == "bundle" else 1)

    def stream(
        self, *, progress: Callable[[int], None] = lambda events: None
    ) -> Generator[bytes, None, None]:
        """Yield the ZIP; its lease ends when the stream ends or is closed.

        `progress` is called with the number of events read.
        Raises SubjectErasedError when the subject is erased meanwhile.
        """
        try:
            for part in self._build_parts(progress):
                self._renew_lease()
                self.sent += len(part)
                if part:
                    yield part
        finally:
            self.close()

    def _build_parts(self, progress: Callable[[int], None]) -> Iterator[bytes]:
        if self.kind == "markdown":
            return markdown_trees.stream(self.cut, progress=progress)
        return bundles.stream(
            self.cut,
            user_id=subjects.open_user_id(self.cut.subject),
            sign=_sign_data,
            progress=progress,
        )

    def take(self) -> bytes:
        """Return the next 64 KiB or more, nothing at the end; from any thread."""
        parts, size = [], 0
        with self._lock:
            if self._left is None:
                self._left = self.stream()
            for part in self._left:
                parts.append(part)
                size += len(part)
                if size >= PIECE_BYTES:
                    break
        return b"".join(parts)

    def drop(self) -> None:
        """Stop the export, wherever the stream is."""
        with self._lock:
            if isinstance(self._left, Generator):
                self._left.close()
            self._left = iter(())
        self.close()

    def close(self) -> None:
        """Release the lease. A repeat does nothing."""
        with suppress(Refusal):  # the lease expires by itself
            journal.run(Lease.objects.filter(holder=self.id).delete)

    def _renew_lease(self) -> None:
        """Renew the lease, at most every 20 seconds."""
        now = time.monotonic()
        if now - self._beaten >= BEAT_SECONDS:
            self._beaten = now
            mine = Lease.objects.filter(holder=self.id)
            at = clock.now()
            journal.run(partial(mine.update, beaten_at=at, expires_at=at + LEASE))


def begin_export(
    subject: Subject, *, actor: str, kind: ExportFormat = "bundle"
) -> BundleExport:
    """Take a cut and a lease, and audit the export.

    An agent's export counts as a read of the subject. Raises SubjectErasedError,
    ProjectDeletedError, ColdStorageError; ExportBusyError while as many exports run as
    may; RateError when the subject was exported often enough today. A refused export
    leaves no audit entry.
    """
    export = prepare_export(subject, kind=kind)
    journal.run(partial(_record_export, export, actor))
    return export


def prepare_export(subject: Subject, *, kind: ExportFormat = "bundle") -> BundleExport:
    """Prepare an export that `begin_export_async` begins.

    Only reads; raises SubjectErasedError, ColdStorageError.
    """
    cold.require_readable(subject.id)
    return BundleExport(cut=bundle_cuts.take(subject), kind=kind)


async def begin_export_async(export: BundleExport, *, actor: str) -> None:
    """Begin as `begin_export` does, for coroutines: no thread waits for the writer."""
    await journal.run_async(partial(_record_export, export, actor))


def _record_export(export: BundleExport, actor: str) -> None:
    """Audit the export and take its lease; runs in the writer."""
    subject, now = export.cut.subject, clock.now()
    with transaction.atomic():
        fence.require_active(subject.project_id)
        # Append first: the entry locks the row that every other export waits for.
        audit.append(
            actor=actor,
            action="subject.exported",
            project=subject.project_id,
            target_kind="subject",
            target_id=str(subject.id),
            subject=subject.id,
            count=export.cut.events,
            at=now,
        )
        _require_daily_limit(subject, now)
        _take_lease(export, subject.project_id, now)
    word, _, prefix = actor.partition(":")
    if word == "agent":
        uses.count_read(prefix, subject.id)


def _require_daily_limit(subject: Subject, now: datetime) -> None:
    """Raise RateError when this export exceeds the daily limit."""
    noted = AuditEntry.objects.filter(
        project=subject.project_id,
        target_id=str(subject.id),
        action="subject.exported",
        at__gt=now - DAY,
    )
    limit = settings.EXPORTS_PER_DAY
    newest = list(noted.order_by("-seq").values_list("at", flat=True)[: limit + 1])
    if len(newest) > limit:
        left = newest[-1] + DAY - now
        seconds = max(1, int(left.total_seconds()))
        raise RateError(retry_after_seconds=seconds, max_per_day=limit)


def _take_lease(export: BundleExport, project: UUID, now: datetime) -> None:
    """Take a free lease. Raises ExportBusyError."""
    held = Lease.objects.filter(name__startswith=_PREFIX)
    held.filter(Q(expires_at__lte=now) | Q(expires_at__gt=now + 2 * LEASE)).delete()
    taken = set(held.values_list("name", flat=True))
    places = (
        _build_lease_name(project, n) for n in range(settings.EXPORTS_PER_PROJECT)
    )
    free = next((place for place in places if place not in taken), None)
    if free is None or len(taken) >= settings.EXPORTS_AT_ONCE:
        at_once = settings.EXPORTS_PER_PROJECT, settings.EXPORTS_AT_ONCE
        raise ExportBusyError(max_in_project=at_once[0], max_in_all=at_once[1])
    Lease.objects.create(
        name=free, holder=export.id, beaten_at=now, expires_at=now + LEASE
    )


def _build_lease_name(project: UUID, number: int) -> str:
    """Build the name of a project's lease."""
    return f"{_PREFIX}{number}.{project.hex}"


def _sign_data(data: bytes) -> tuple[str, bytes]:
    """Sign data with the current key; return the key's id and the signature."""
    signer = signing.get_signer()
    return signer.key_id, signer.sign(data)
