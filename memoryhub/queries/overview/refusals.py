"""Refusals over a range of time, by code, thread and hour.

Never writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from memoryhub.models.activity import RefusalCount
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.overview.series import ActivitySeries

#: Most rows of threads that are shown.
SHOWN: Final = 200
_HIDDEN: Final = (Subject.State.RESTRICTED, Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedThread:
    """Refusals of one code to a thread in an hour."""

    name: str
    code: str
    at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalSummary:
    """Refusals in a project: sums by code, and rows by thread, newest hours first."""

    codes: tuple[tuple[str, int], ...]
    threads: tuple[RefusedThread, ...]
    #: Whether there are more rows than are shown.
    more: bool

    @property
    def count(self) -> int:
        return sum(count for _, count in self.codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCode:
    """Refusals of one code in a project in a minute."""

    code: str
    at: datetime
    count: int


def list_lately(project: Project, *, since: datetime, limit: int) -> list[RefusedCode]:
    """List refusals since the minute of `since`, newest first. One query.

    A refusal is counted within ten seconds.
    """
    rows = RefusalCount.objects.filter(
        project=project,
        thread=None,
        minutes=1,
        at__gte=since.replace(second=0, microsecond=0),
    )
    found = rows.order_by("-at", "-count").values_list("code", "at", "count")
    return [RefusedCode(code=c, at=at, count=n) for c, at, n in found[:limit]]


def get_refusals(
    project: Project,
    series: ActivitySeries,
    *,
    code: str = "",
    thread: UUID | None = None,
) -> RefusalSummary:
    """Return the refusals in a range, of one code or thread if given. One query.

    Includes hours that began before the range and reach into it.
    """
    start = series.bins[0].at.replace(minute=0, second=0, microsecond=0)
    rows = RefusalCount.objects.filter(
        project=project, thread__isnull=False, at__gte=start
    ).exclude(thread__subject__state__in=_HIDDEN)
    rows = rows.exclude(thread__status=Thread.Status.ERASED)
    if code:
        rows = rows.filter(code=code)
    if thread:
        rows = rows.filter(thread=thread)
    found = rows.order_by("-at", "-count", "id").values_list(
        "thread__name", "code", "at", "count"
    )[: SHOWN + 1]
    codes = series.whole.refusals
    return RefusalSummary(
        codes=tuple(sorted(codes.items(), key=lambda each: (-each[1], each[0]))),
        threads=tuple(
            RefusedThread(name=name, code=word, at=at, count=count)
            for name, word, at, count in found[:SHOWN]
        ),
        more=len(found) > SHOWN,
    )
