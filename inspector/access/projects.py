from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.web import shell
from memoryhub.models.server.clock import clock
from memoryhub.queries.memory import stats
from memoryhub.queries.threads import catalogue, retention
from memoryhub.queries.verify import checks, memory_checks, privacy_checks
from memoryhub.services.access import operators

RECENT = 8


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """The operator's only project, or a list of them."""
    found = operators.projects_of(access.operator_of(request))
    if len(found) == 1:
        only = reverse("overview", kwargs={"project": found[0].slug})
        return HttpResponseRedirect(only)
    context = {"projects": found, "operator": access.operator_of(request)}
    return shell.page(
        request, "inspector/access/projects/index.html", context, place=None
    )


@require_safe
@signed_in
def overview(request: HttpRequest, project: str) -> HttpResponse:
    place = access.find_place(request, project)
    now = clock.now()
    recent = catalogue.list_threads(
        place.project, terms=(), now=now, limit=RECENT, restricted=place.officer
    )
    context = {
        "counts": stats.get_project_counts(place.project.id, now=now),
        "checks": checks.get_checks(place.project),
        "late": privacy_checks.count_late(place.project, now=now),
        "memory": memory_checks.get_memory_checks(place.project, now=now),
        "due": retention.count_soon(place.project, now=now),
        "counted": retention.COUNTED,
        "recent": recent.items,
        "query": "",
    }
    return shell.page(
        request,
        "inspector/access/projects/overview.html",
        context,
        place=place,
        section="overview",
        live=True,
    )
