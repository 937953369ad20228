from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.live import panels, visits


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """What stands in the model's context, page by page, and why."""
    visit = visits.find(request, project, thread)
    context = panels.PANELS["working-set"].context(visit.scene)
    return visits.page(
        request, "inspector/paging/working_set/show.html", visit, context
    )
