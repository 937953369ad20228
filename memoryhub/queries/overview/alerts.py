"""Alerts of a project: checks that are not well, silences, history. Never writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final
from uuid import UUID

from django.db.models import Prefetch, QuerySet

from memoryhub.models.alerts import MAX_REASON, Alert, AlertNotice, AlertSilence
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.server.clock import clock
from memoryhub.queries.lists.terms import SearchTerm, WordValue
from memoryhub.queries.overview import checks, unhealthy
from memoryhub.queries.overview.checks import ServerCheck
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.threads import LISTED_LAG
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import VERDICTS, Tone, list_verdicts

#: Alerts that the history shows, and threads that an open alert names.
SHOWN, NAMED = 50, 5
#: Title of each check and of each verdict on threads, by key.
TITLES: Final[Mapping[str, str]] = {
    **{each.flag: f"Threads: {each.word}" for each in VERDICTS},
    **checks.TITLES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFinding:
    """A check that is not well now, in words without a thread or a person."""

    key: str
    tone: Tone
    reason: str
    since: datetime | None


def list_findings(
    project: Project,
    row: ProjectStats | None,
    shared: Iterable[ServerCheck],
    *,
    now: datetime,
) -> list[AlertFinding]:
    """List what is not well in a project, given the checks that all projects share.

    Threads are judged by the worker's last look. At most seven small queries.
    """
    own = checks.list_project_checks(project, now=now)
    found = [
        AlertFinding(
            key=each.key,
            tone=each.tone,
            reason=f"{each.text} {each.fix} {each.command}".strip()[:MAX_REASON],
            since=each.since,
        )
        for each in (*shared, *own)
        if each.tone
    ]
    return [*_list_thread_findings(project, row), *found]


def _list_thread_findings(
    project: Project, row: ProjectStats | None
) -> list[AlertFinding]:
    if row is None or not row.unhealthy_threads:
        return []
    counts = unhealthy.parse_counts(row)
    onsets = unhealthy.parse_onsets(row).values()
    found = []
    for each in list_verdicts(Thresholds.from_project(project)):
        if count := counts.get(each.flag, 0):
            starts = (flags[each.flag].at for flags in onsets if each.flag in flags)
            words = "1 thread" if count == 1 else f"{count:,} threads"
            found.append(
                AlertFinding(
                    key=each.flag,
                    tone=each.tone,
                    reason=f"{words}, {each.limit}. {each.about}"[:MAX_REASON],
                    since=min((at for at in starts if at), default=None),
                )
            )
    return found


def list_open_alerts(project: Project) -> list[Alert]:
    """List the alerts of checks that are not well, newest first. Two queries."""
    return list(_select_alerts(project).filter(ended_at=None))


def list_alert_threads(project: Project, *, restricted: bool) -> dict[str, list[str]]:
    """List by check the names of the first threads that are not well. Two queries.

    By the worker's last look, as alerts are. Threads of restricted subjects are
    included only with `restricted`.
    """
    found: dict[str, list[UUID]] = defaultdict(list)
    for thread, flags in unhealthy.get_onsets(project.id).items():
        for flag in flags:
            found[flag].append(thread)
    wanted = {flag: threads[:NAMED] for flag, threads in found.items()}
    rows = catalogue.filter_threads(
        project, terms=(), now=clock.now(), restricted=restricted
    ).filter(id__in={*chain(*wanted.values())})
    names = dict(rows.values_list("id", "name"))
    return {
        flag: [names[each] for each in threads if each in names]
        for flag, threads in wanted.items()
    }


def list_closed_threads(
    project: Project, alert: Alert, *, now: datetime, restricted: bool
) -> list[str]:
    """List the names of threads that closed, not well, while an alert of threads held.

    The latest first. One query.
    """
    terms = [
        SearchTerm(key=key, values=(WordValue(text=text),))
        for key, text in (("flag", alert.check_key), ("status", "closed"))
    ]
    rows = catalogue.filter_threads(
        project, terms=terms, now=now, restricted=restricted
    ).filter(listed_at__gte=alert.since - LISTED_LAG)
    names = rows.order_by("-listed_at", "id").values_list("name", flat=True)
    return list(names[:NAMED])


def list_thread_checks(project: Project) -> set[str]:
    """List the checks whose alerts count threads. No query."""
    return {each.flag for each in list_verdicts(Thresholds.from_project(project))}


def list_ended_alerts(project: Project) -> list[Alert]:
    """List the newest ended alerts with their notices. Two queries."""
    return list(_select_alerts(project).filter(ended_at__isnull=False)[:SHOWN])


def _select_alerts(project: Project) -> QuerySet[Alert]:
    notices = Prefetch("notices", AlertNotice.objects.order_by("made_at", "id"))
    rows = Alert.objects.filter(project=project).order_by("-began_at", "-id")
    return rows.prefetch_related(notices)


def get_silences(project: Project, *, now: datetime) -> dict[str, datetime]:
    """Return until when each check is silent. One query."""
    rows = AlertSilence.objects.filter(project=project, until__gt=now)
    return dict(rows.values_list("check_key", "until"))
