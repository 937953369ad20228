from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from inspector.web import exports, refusals
from memoryhub.errors import Refusal
from memoryhub.models.server.clock import clock
from memoryhub.queries.people import profiles
from memoryhub.services.export import exports as handing


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def export(request: HttpRequest, project: str, subject: UUID) -> HttpResponseBase:
    """Show what a subject's bundle holds and omits; a POST sends the bundle."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = privacy_pages.require_subject(visitor, subject)
    refusal: Refusal | None = None
    if request.method == "POST":
        try:
            begun = handing.begin_export(row, actor=visitor.actor)
            parts = begun.stream()
            return exports.download(request, parts, begun.name, "application/zip")
        except Refusal as refused:
            refusal = refused
    context = {
        "subject": row,
        "profile": profiles.get_profile(row, now=clock.now()),
        "problem": refusal.sentence if refusal else "",
    }
    status = refusals.get_status(refusal)
    return privacy_pages.render_page(
        request,
        visitor,
        "people/subjects/export",
        context,
        tab="subjects",
        status=status,
    )
