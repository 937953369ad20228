from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.live.hub import hub
from inspector.web import shell
from memoryhub.models.server.clock import clock
from memoryhub.queries.memory import stats
from memoryhub.queries.verify import health
from memoryhub.queries.verify.health import Part

#: What each part is for, in the order they are shown.
PARTS = {
    "clock": "Stamps events and ends what has a deadline; while it is off, all wait.",
    "journal": "Holds every event; without it nothing can be read.",
    "keys": "Opens what is sealed; without it content stays closed.",
    "writer": "Commits what agents and operators do.",
    "live": "Tells open pages what moved; without it they look by themselves.",
    "expiry": "Sweeps what has expired and erases its values; no read waits for it.",
    "worker": "Sums, sweeps and keeps retention; memory is served without it.",
}


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    place = access.find_place(request, project)
    readiness = health.get_readiness()
    shown = [
        (name, told, _figured(name, readiness.parts[name]))
        for name, told in PARTS.items()
        if name in readiness.parts
    ]
    counts = stats.get_project_counts(place.project.id, now=clock.now())
    context = {"readiness": readiness, "parts": shown, "counts": counts}
    return shell.page(
        request,
        "inspector/threads/health/index.html",
        context,
        place=place,
        section="health",
    )


def _figured(name: str, part: Part) -> Part:
    """The hub is ours, so it is we who know what it does."""
    if name != "live":
        return part
    return replace(part, figures={**part.figures, **hub.figures()})
