from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.drawing.bookmarks import PANEL
from inspector.live import visits


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The bookmarks of a thread, now or as of an event."""
    visit = visits.find(request, project, thread)
    context = PANEL.context(visit.scene)
    template = "inspector/memory/bookmarks/index.html"
    return visits.page(request, template, visit, context)
