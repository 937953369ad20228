from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from inspector.lists import person_visits
from inspector.web import exports, refusals
from memoryhub.errors import Refusal
from memoryhub.models.server.clock import clock
from memoryhub.queries.people import profiles
from memoryhub.services.export import exports as handing
from memoryhub.services.export.exports import BundleExport

#: Cookie by which a page learns that its download has begun, with the form's token.
_BEGUN: Final = "mh_download"
_TOKEN: Final = re.compile("[0-9a-z]{1,32}")
_COOKIE_SECONDS: Final = 60


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
        except Refusal as refused:
            refusal = refused
        else:
            return _send_export(request, begun)
    context = {
        "subject": row,
        "hint": person_visits.find_hint(visitor, row.id),
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


def _send_export(request: HttpRequest, begun: BundleExport) -> HttpResponseBase:
    """Send the bundle, with a cookie that the form's script waits for, if any does."""
    answer = exports.download(request, begun.stream(), begun.name, "application/zip")
    token = request.POST.get("token", "")
    if _TOKEN.fullmatch(token):
        answer.set_cookie(
            _BEGUN,
            token,
            max_age=_COOKIE_SECONDS,
            path=request.path,
            secure=request.is_secure(),
            samesite="Strict",
        )
    return answer
