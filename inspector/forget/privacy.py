from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from memoryhub.models.server.clock import clock
from memoryhub.queries.verify import privacy_checks
from memoryhub.queries.verify.privacy_checks import PrivacyCheck


@require_safe
@signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show what guards the memory of people: verdicts first, each with its fix."""
    visitor = privacy_pages.enter(request, project)
    found = privacy_checks.list_checks(visitor.project, now=clock.now())
    context = {
        "verdicts": [(verdict, *_figures(verdict)) for verdict in found],
        "bad": sum(verdict.state == "away" for verdict in found),
        "warned": sum(verdict.state == "warn" for verdict in found),
    }
    return privacy_pages.page(
        request, visitor, "forget/privacy/show", context, tab="verdicts"
    )


def _figures(verdict: PrivacyCheck) -> tuple[dict[str, datetime], dict[str, Any]]:
    """Part times from other figures, since they are drawn differently."""
    times = {n: v for n, v in verdict.figures.items() if isinstance(v, datetime)}
    return times, {n: v for n, v in verdict.figures.items() if n not in times}
