from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

import inspector
from inspector.web.places import Place
from memoryhub.journal import writer
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget.project_deletions import Progress, get_progress

Context = dict[str, Any]


def page(
    request: HttpRequest,
    template: str | list[str],
    context: Context,
    *,
    place: Place | None = None,
    section: str = "",
    live: bool = False,
    status: int = 200,
) -> HttpResponse:
    """A whole page: what every page shows around what this one is about."""
    around = {
        "place": place,
        "section": section,
        "query": "",
        "socket": live,
        "build": inspector.BUILD,
        "here": request.get_full_path(),
        "host": f"{request.scheme}://{request.get_host()}",
        "now": clock.now(),
        "stopped": not writer.running,
        "deletion": _deletion(place),
    }
    return render(request, template, {**around, **context}, status=status)


def _deletion(place: Place | None) -> Progress | None:
    """How far its project's deletion is, while one goes on."""
    if place is None or place.project.state != Project.State.DELETING:
        return None
    return get_progress(place.project)
