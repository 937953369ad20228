"""Heartbeats: a check of the process's clock against another clock.

On PostgreSQL the database gives the time. On SQLite each process on the machine writes
its time into its row: the oldest living process is believed, so that all agree. See
decision 11.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.db import connections, transaction
from django.db.models import Q, QuerySet

from memoryhub import journal
from memoryhub.errors import ClockSkewError
from memoryhub.models.server.clock import SECOND_NS, clock, read_ticks_ns
from memoryhub.models.server.heartbeats import Heartbeat

#: Three rounds of the loop; a process that was silent for longer is dead.
ALIVE_NS = 30 * SECOND_NS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

log = structlog.get_logger()


def compare() -> None:
    """Compare our clock with the database's or the oldest process's. One query.

    Without a clock to compare with, the last result stays.
    """
    if connections["default"].vendor == "postgresql":
        _note_lag(_measure_database_lag())
    elif eldest := _match_alive().order_by("id").first():
        _note_lag(_measure_lag(eldest))


def beat(process: UUID) -> bool:
    """Beat as an alive process, compare clocks; return whether its clock is right.

    One query on PostgreSQL; a transaction of four statements on SQLite.
    """
    if connections["default"].vendor == "postgresql":
        compare()
    else:
        journal.run(partial(_write_beat, process))
    return not clock.is_skewed


def end(process: UUID) -> None:
    """Record that the process stops, so that no process compares with it any more."""
    rows = Heartbeat.objects.filter(process=process)
    journal.run(rows.delete)


def _write_beat(process: UUID) -> None:
    with transaction.atomic():
        Heartbeat.objects.exclude(id__in=_match_alive().values("id")).delete()
        mine = Heartbeat.objects.filter(process=process).first()
        # In order of arrival: of two processes that start at once, one is older.
        elders = Q(id__lt=mine.id) if mine else Q()
        if eldest := Heartbeat.objects.filter(elders).order_by("id").first():
            _note_lag(_measure_lag(eldest))
        if clock.is_skewed:
            # Others must not come to believe a wrong clock.
            Heartbeat.objects.filter(process=process).delete()
            return
        values = {"beaten_at": clock.now(), "ticks_ns": read_ticks_ns()}
        Heartbeat.objects.update_or_create(process=process, defaults=values)


def _match_alive() -> QuerySet[Heartbeat]:
    """Match living processes by the machine's tick count, which no clock can change."""
    now = read_ticks_ns()
    return Heartbeat.objects.filter(ticks_ns__range=(now - ALIVE_NS, now))


def _measure_lag(other: Heartbeat) -> int:
    """Return the nanoseconds that our clock is behind the other process's clock."""
    return (
        _to_nanoseconds(other.beaten_at - _EPOCH)
        - other.ticks_ns
        - clock.time_ns()
        + read_ticks_ns()
    )


def _measure_database_lag() -> int:
    """Return the nanoseconds that our clock is surely behind PostgreSQL's, or ahead."""
    began = clock.now()
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (theirs,) = cursor.fetchone()
    # The database read its clock between these two instants; a slow answer proves
    # nothing.
    nearest = min(max(theirs, began), clock.now())
    return _to_nanoseconds(theirs - nearest)


def _to_nanoseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1_000


def _note_lag(behind_ns: int) -> None:
    was_skewed = clock.is_skewed
    clock.compare(behind_ns)
    if clock.is_skewed and not was_skewed:
        log.error("clock.skewed", code=ClockSkewError.code)
    elif was_skewed and not clock.is_skewed:
        log.info("clock.true")
