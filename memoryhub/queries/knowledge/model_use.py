"""Use of the language model by a project, counted by hour and day. Never writes.

The counts are of all processes up to their last flush.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, Sum
from django.db.models.functions import TruncDate

from memoryhub.models.activity import ModelHour

DAY = timedelta(days=1)
#: Days that `list_days` covers.
DAYS = 14


class ModelUse(NamedTuple):
    """Use of the model in the last 24 hours, to the hour."""

    calls: int
    #: Calls of runs without an answer, out of `calls`.
    failures: int
    tokens: int


class ModelDay(NamedTuple):
    """Use of the model by one role on a day (UTC)."""

    day: date
    role: str
    #: Runs by outcome.
    written: int
    useless: int
    no_model: int
    void: int
    calls: int
    tokens: int


def get_use(project: UUID, *, now: datetime) -> ModelUse:
    """Sum up the last 24 hours. One query."""
    sums = ModelHour.objects.filter(project=project, at__gt=now - DAY).aggregate(
        all_calls=Sum("calls", default=0),
        failures=Sum("calls", default=0, filter=Q(outcome="no_model")),
        all_tokens=Sum("tokens", default=0),
    )
    return ModelUse(*sums.values())


def list_days(project: UUID, *, now: datetime) -> list[ModelDay]:
    """List the last DAYS days with calls, by day and role, newest first. One query."""
    since = (now - DAYS * DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = ModelHour.objects.filter(project=project, at__gte=since)
    outcomes = ("written", "useless", "no_model", "void")
    counts = {each: Sum("runs", default=0, filter=Q(outcome=each)) for each in outcomes}
    sums = {f"all_{each}": Sum(each, default=0) for each in ("calls", "tokens")}
    days = rows.values("role", day=TruncDate("at", tzinfo=UTC))
    found = days.annotate(**counts, **sums).order_by("-day", "role")
    return [*map(ModelDay._make, found.values_list("day", "role", *counts, *sums))]
