from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector import access, asof, panels, shell
from inspector.access import signed_in
from inspector.panels import Scene


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """What stands in the model's context, page by page, and why."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    moment = asof.read(request, row)
    scene = Scene(thread=row, at_seq=moment.at_seq)
    context: dict[str, Any] = {
        **panels.shared(scene),
        **panels.PANELS["working-set"].context(scene),
        "moved": moment,
        "newer": moment.head - moment.seq,
    }
    return shell.page(
        request,
        "inspector/working_set/show.html",
        context,
        place=place,
        section="threads",
        live=True,
    )
