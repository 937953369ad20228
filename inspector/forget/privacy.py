from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from memoryhub.models.server.clock import clock
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.overview.checks import ServerCheck


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show the checks that guard people's memory, as on Health, with their figures."""
    visitor = privacy_pages.require_officer(request, project)
    found = unhealthy.get_unhealthy(visitor.project, now=clock.now(), counted=True)
    context = {
        "found": found,
        "unhealthy": found.count,
        "wrong_here": sum(each.tone is not None for each in found.guards),
        "checks": [(each, *_split_figures(each)) for each in found.guards],
    }
    return privacy_pages.render_page(
        request, visitor, "forget/privacy/show", context, tab="verdicts"
    )


def _split_figures(
    check: ServerCheck,
) -> tuple[Mapping[str, datetime], Mapping[str, Any]]:
    """Split a check's times from its other figures; the page draws them differently."""
    found = check.figures
    others = {n: v for n, v in found.items() if not isinstance(v, datetime)}
    # The instant of a chain's or a scan's newest line; Health names it alike.
    times = {"newest line" if n == "at" else n: found[n] for n in found.keys() - others}
    return times, others
