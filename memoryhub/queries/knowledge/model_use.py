"""What the language model was asked of a project, by the hour. Never writes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Sum

from memoryhub.models.activity import ProjectHour

DAY = timedelta(days=1)


class ModelUse(NamedTuple):
    """Of the last 24 hours, to the hour."""

    calls: int
    failures: int
    tokens: int


def get_use(project: UUID, *, now: datetime) -> ModelUse:
    """Sum what was counted, of all processes up to their last flush. One query."""
    rows = ProjectHour.objects.filter(project=project, minutes=60, at__gt=now - DAY)
    columns = ("model_calls", "model_failures", "model_tokens")
    sums = rows.aggregate(*map(Sum, columns))
    return ModelUse(*(sums[f"{column}__sum"] or 0 for column in columns))
