from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from inspector.web import exports, refusals
from memoryhub.errors import Refusal
from memoryhub.models.server.clock import clock
from memoryhub.queries.people import profiles
from memoryhub.services.export import exports as handing


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def export(request: HttpRequest, project: str, subject: UUID) -> HttpResponseBase:
    """Show what a bundle holds and what it does not; a POST sends it."""
    visitor = privacy_pages.act(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    refusal: Refusal | None = None
    if request.method == "POST":
        try:
            begun = handing.begin(row, actor=visitor.actor)
            parts = begun.stream()
            return exports.download(request, parts, begun.name, "application/zip")
        except Refusal as refused:
            refusal = refused
    context = {
        "subject": row,
        "profile": profiles.get_profile(row, now=clock.now()),
        "problem": refusal.sentence if refusal else "",
    }
    status = refusals.status_of(refusal)
    return privacy_pages.page(
        request,
        visitor,
        "people/subjects/export",
        context,
        tab="subjects",
        status=status,
    )
