from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.web import shell
from memoryhub.services.access import operators


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the operator's only project, or a list of them."""
    found = operators.projects_of(access.operator_of(request))
    if len(found) == 1:
        only = reverse("overview", kwargs={"project": found[0].slug})
        return HttpResponseRedirect(only)
    context = {"projects": found, "operator": access.operator_of(request)}
    return shell.page(
        request, "inspector/access/projects/index.html", context, visitor=None
    )
