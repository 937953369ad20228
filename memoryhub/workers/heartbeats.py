"""Heartbeats: whether the process's clock is to be trusted, by asking another.

On PostgreSQL the database tells the time. On SQLite the processes of the machine do,
each in a row of its own: the eldest that lives is believed, so that all agree on one.
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
from memoryhub.models.server.clock import SECOND_NS, clock, ticks_ns
from memoryhub.models.server.heartbeats import Heartbeat

#: Three rounds of the loop; who has been silent for longer has died.
ALIVE_NS = 30 * SECOND_NS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

log = structlog.get_logger()


def compare() -> None:
    """Compare the process's clock with the database's or the eldest's. One query.

    Where there is nobody to ask, what was known of it stays.
    """
    if connections["default"].vendor == "postgresql":
        _note(_behind_database())
    elif eldest := _alive().order_by("id").first():
        _note(_behind(eldest))


def beat(process: UUID) -> bool:
    """Compare, and say that the process lives; returns whether its clock is true.

    One query on PostgreSQL; a transaction of four statements on SQLite.
    """
    if connections["default"].vendor == "postgresql":
        compare()
    else:
        journal.run(partial(_beat, process))
    return not clock.skewed


def end(process: UUID) -> None:
    """Say that the process stops, so that nobody compares with it any more."""
    rows = Heartbeat.objects.filter(process=process)
    journal.run(rows.delete)


def _beat(process: UUID) -> None:
    with transaction.atomic():
        Heartbeat.objects.exclude(id__in=_alive().values("id")).delete()
        mine = Heartbeat.objects.filter(process=process).first()
        # In the order they came: of two that start at once, one is the elder.
        elders = Q(id__lt=mine.id) if mine else Q()
        if eldest := Heartbeat.objects.filter(elders).order_by("id").first():
            _note(_behind(eldest))
        if clock.skewed:
            # It must not become the one that others believe.
            Heartbeat.objects.filter(process=process).delete()
            return
        values = {"beaten_at": clock.now(), "ticks_ns": ticks_ns()}
        Heartbeat.objects.update_or_create(process=process, defaults=values)


def _alive() -> QuerySet[Heartbeat]:
    """Match those alive by the machine's count, which no clock can change."""
    now = ticks_ns()
    return Heartbeat.objects.filter(ticks_ns__range=(now - ALIVE_NS, now))


def _behind(other: Heartbeat) -> int:
    """Count nanoseconds that our clock is behind the other's, whenever that beat."""
    return _ns(other.beaten_at - _EPOCH) - other.ticks_ns - clock.time_ns() + ticks_ns()


def _behind_database() -> int:
    """Count nanoseconds that our clock is surely behind PostgreSQL's, or ahead."""
    began = clock.now()
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (theirs,) = cursor.fetchone()
    # It was told at some moment between these two; a slow answer proves nothing.
    nearest = min(max(theirs, began), clock.now())
    return _ns(theirs - nearest)


def _ns(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1_000


def _note(behind_ns: int) -> None:
    was_skewed = clock.skewed
    clock.compare(behind_ns)
    if clock.skewed and not was_skewed:
        log.error("clock.skewed", code=ClockSkewError.code)
    elif was_skewed and not clock.skewed:
        log.info("clock.true")
