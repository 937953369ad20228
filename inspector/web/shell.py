from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

import inspector
from inspector.web import read_audit
from inspector.web.visitors import Visitor
from memoryhub.journal import writer
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.access.actors import ActorNames
from memoryhub.queries.forget.project_deletions import DeletionProgress, get_progress
from memoryhub.queries.overview.unhealthy import get_counts

Context = dict[str, Any]


def render_page(
    request: HttpRequest,
    template: str | list[str],
    context: Context,
    *,
    visitor: Visitor | None = None,
    section: str = "",
    live: bool = False,
    status: int = 200,
) -> HttpResponse:
    """Render a whole page: the shell of every page around the template's content."""
    now = clock.now()
    counts = get_counts(visitor.project, now=now) if visitor else None
    around = {
        "visitor": visitor,
        "section": section,
        "query": "",
        "socket": live,
        "standing": "",
        "as_of": None,
        "to_now": "",
        "build": inspector.BUILD,
        "sealed_view": _seal_view(visitor),
        "host": f"{request.scheme}://{request.get_host()}",
        "now": now,
        "stopped": not writer.is_running,
        "deletion": _find_deletion(visitor),
        "unhealthy": counts and counts.unhealthy,
        "open_threads": counts and counts.open_threads,
        "actors": ActorNames(visitor.project.id) if visitor else None,
    }
    return render(request, template, {**around, **context}, status=status)


def _seal_view(visitor: Visitor | None) -> str:
    """Return the page's view, which the page names when it asks for parts of itself."""
    if visitor is None or visitor.reading is None:
        return ""
    return read_audit.seal_view(visitor.reading.view, visitor.operator.id)


def _find_deletion(visitor: Visitor | None) -> DeletionProgress | None:
    """Return the progress of the project's deletion, while one is under way."""
    if visitor is None or visitor.project.state != Project.State.DELETING:
        return None
    return get_progress(visitor.project)
