"""Page of what calls of an agent's own tools have taught, with links to the calls."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.lists import visits
from memoryhub.queries.replay import states
from memoryhub.queries.turns import procedures


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show errors with their fixes, and successes, of each tool, as of now."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    found = procedures.list_procedures(row, states.load_state(row))
    return visits.render_thread_page(
        request, "inspector/paging/procedures.html", visitor, row, {"tools": found}
    )
