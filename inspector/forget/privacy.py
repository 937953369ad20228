from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from memoryhub.models.server.clock import clock
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.overview.checks import ServerCheck


@require_safe
@signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show what guards the memory of people, as Health does, beside what it counts."""
    visitor = privacy_pages.enter(request, project)
    found = unhealthy.get_unhealthy(visitor.project, now=clock.now(), counted=True)
    context = {
        "found": found,
        "unhealthy": found.count,
        "wrong_here": sum(each.tone is not None for each in found.guards),
        "checks": [(each, *_figures(each)) for each in found.guards],
    }
    return privacy_pages.page(
        request, visitor, "forget/privacy/show", context, tab="verdicts"
    )


def _figures(check: ServerCheck) -> tuple[Mapping[str, datetime], Mapping[str, Any]]:
    """Part times from other figures, since they are drawn differently."""
    times = {n: v for n, v in check.figures.items() if isinstance(v, datetime)}
    return times, {n: v for n, v in check.figures.items() if n not in times}
