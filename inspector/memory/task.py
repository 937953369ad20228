from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.live import panels, visits


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The task: its fields, how far it came, and each turn that it took."""
    visit = visits.find(request, project, thread)
    context = panels.PANELS["task"].context(visit.scene)
    return visits.page(request, "inspector/memory/task/show.html", visit, context)
