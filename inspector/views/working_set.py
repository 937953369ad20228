from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector import panels, visits
from inspector.access import signed_in


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """What stands in the model's context, page by page, and why."""
    visit = visits.find(request, project, thread)
    context = panels.PANELS["working-set"].context(visit.scene)
    return visits.page(request, "inspector/working_set/show.html", visit, context)
