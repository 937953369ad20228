"""Exports: a subject's memory handed over, so many at once and a day, and noted.

What is handed over is noted before its first byte is made: no entry, no bundle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from memoryhub import journal
from memoryhub.errors import ExportBusyError, RateError, Refusal
from memoryhub.journal import audit
from memoryhub.journal.log import fence
from memoryhub.journal.writing.uses import uses
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.server.leases import Lease
from memoryhub.models.subjects import Subject
from memoryhub.queries.export import bundle_cuts, bundles
from memoryhub.queries.export.bundle_cuts import Cut
from memoryhub.services.people import subjects
from memoryhub.vault.proof import signing

#: An export that sends nothing for so long makes room for another one.
LEASE = timedelta(minutes=2)
BEAT_SECONDS = 20.0
DAY = timedelta(days=1)
#: What is handed to a client at once.
PIECE_BYTES = 64 * 1024
_PREFIX = "export"


@dataclass(slots=True, kw_only=True)
class Export:
    """A bundle that is being handed over. Whoever begins one takes or closes it."""

    id: UUID = field(default_factory=uuid7)
    cut: Cut
    #: Bytes sent.
    sent: int = 0
    _beaten: float = field(default_factory=time.monotonic)
    _left: Iterator[bytes] | None = None
    #: Of those who take parts on several threads, one at a time.
    _lock: Lock = field(default_factory=Lock)

    @property
    def name(self) -> str:
        """Of the file: ids only."""
        return f"memoryhub-{self.cut.subject.id}.zip"

    def stream(
        self, *, progress: Callable[[int], None] = lambda events: None
    ) -> Generator[bytes, None, None]:
        """Yield the bundle; its place is free again once this ends or is closed.

        `progress` is told how many events were read; each is, twice. Raises
        SubjectErasedError when the subject is erased meanwhile.
        """
        try:
            for part in bundles.stream(
                self.cut,
                user_id=subjects.external_id(self.cut.subject),
                sign=_sign,
                progress=progress,
            ):
                self._beat()
                self.sent += len(part)
                if part:
                    yield part
        finally:
            self.close()

    def take(self) -> bytes:
        """Return the next 64 KiB or more, nothing at the end; on any thread."""
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
        """Take no more of it, wherever it is."""
        with self._lock:
            if isinstance(self._left, Generator):
                self._left.close()
            self._left = iter(())
        self.close()

    def close(self) -> None:
        """Make room for another one. A repeat does nothing."""
        with suppress(Refusal):  # the place becomes free by itself
            journal.run(Lease.objects.filter(holder=self.id).delete)

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beaten >= BEAT_SECONDS:
            self._beaten = now
            mine = Lease.objects.filter(holder=self.id)
            at = clock.now()
            journal.run(partial(mine.update, beaten_at=at, expires_at=at + LEASE))


def begin(subject: Subject, *, actor: str) -> Export:
    """Take the cut and a place, and note it. An agent's counts as a read of it.

    Raises SubjectErasedError, ProjectDeletedError; ExportBusyError while as many run as
    may; RateError when it was exported often enough today. Nothing is noted of what is
    refused.
    """
    export = prepare(subject)
    journal.run(partial(_begin, export, actor))
    return export


def prepare(subject: Subject) -> Export:
    """Prepare an export that is still to be begun.

    Only reads; raises SubjectErasedError.
    """
    return Export(cut=bundle_cuts.take(subject))


async def begin_async(export: Export, *, actor: str) -> None:
    """Begin as `begin` does, for coroutines: no thread waits for the writer."""
    await journal.run_async(partial(_begin, export, actor))


def _begin(export: Export, actor: str) -> None:
    subject, now = export.cut.subject, clock.now()
    with transaction.atomic():
        fence.require_active(subject.project_id)
        # First of what could race: it locks the row that every other one waits for.
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
        _require_few(subject, now)
        _take_place(export, subject.project_id, now)
    word, _, prefix = actor.partition(":")
    if word == "agent":
        uses.read(prefix, subject.id)


def _require_few(subject: Subject, now: datetime) -> None:
    """Raise RateError when this one is beyond the number of a day."""
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


def _take_place(export: Export, project: UUID, now: datetime) -> None:
    held = Lease.objects.filter(name__startswith=_PREFIX)
    held.filter(Q(expires_at__lte=now) | Q(expires_at__gt=now + 2 * LEASE)).delete()
    taken = set(held.values_list("name", flat=True))
    places = (_place(project, n) for n in range(settings.EXPORTS_PER_PROJECT))
    free = next((place for place in places if place not in taken), None)
    if free is None or len(taken) >= settings.EXPORTS_AT_ONCE:
        at_once = settings.EXPORTS_PER_PROJECT, settings.EXPORTS_AT_ONCE
        raise ExportBusyError(max_in_project=at_once[0], max_in_all=at_once[1])
    Lease.objects.create(
        name=free, holder=export.id, beaten_at=now, expires_at=now + LEASE
    )


def _place(project: UUID, number: int) -> str:
    return f"{_PREFIX}{number}.{project.hex}"


def _sign(data: bytes) -> tuple[str, bytes]:
    signer = signing.current()
    return signer.key_id, signer.sign(data)
