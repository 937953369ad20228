from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.live.hub import hub
from inspector.web import shell
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge import model_use
from memoryhub.queries.memory import stats
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.overview.checks import ServerCheck
from memoryhub.queries.threads import cold_threads, retention, verdicts
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.verify import memory_checks
from memoryhub.vault.registry import lru

#: Labels of figures that are times or lengths of time.
_LABELS: Final[Mapping[str, str]] = {
    "at": "newest line",
    "behind_seconds": "behind by",
    "age_seconds": "silent for",
    "lag_seconds": "longest wait",
}


@require_safe
@require_signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """Show every check that the overview counts, with its threshold."""
    visitor = access.require_visitor(request, project)
    now = clock.now()
    found = unhealthy.get_unhealthy(visitor.project, now=now)
    listed = verdicts.list_verdicts(Thresholds.from_project(visitor.project))
    closed = verdicts.count_closed(visitor.project, now)
    context = {
        "found": found,
        "unhealthy": found.count,
        "verdicts": [
            (each, found.counts.get(each.flag, 0), closed.get(each.flag, 0))
            for each in listed
        ],
        "to_do": [each for each in found.checks if each.fix and not each.tone],
        "checks": [(each, *_split_figures(each)) for each in found.checks],
        "model_days": model_use.list_days(visitor.project.id, now=now),
        "counts": stats.get_project_counts(visitor.project.id, now=now),
        "memory": memory_checks.get_memory_checks(visitor.project, now=now),
        "due": retention.count_soon(visitor.project, now=now),
        "most_counted": retention.COUNTED,
        "cold": cold_threads.get_cold_counts(visitor.project.id),
        "caches": lru.list_caches(),
    }
    return shell.render_page(
        request,
        "inspector/threads/health/index.html",
        context,
        visitor=visitor,
        section="health",
    )


def _split_figures(
    check: ServerCheck,
) -> tuple[Mapping[str, datetime], Mapping[str, Any]]:
    """Split a check's figures into times and others, which are drawn differently.

    Figures of the hub are added here, since only this process knows them.
    """
    if check.key == "live":
        check = replace(check, figures={**check.figures, **hub.count_activity()})
    times, others = {}, {}
    for name, value in check.figures.items():
        if isinstance(value, datetime):
            times[_LABELS.get(name, name)] = value
        elif name in _LABELS:
            others[_LABELS[name]] = value if value is None else f"{value:g} s"
        else:
            others[name] = value
    return times, others
