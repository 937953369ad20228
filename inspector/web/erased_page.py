"""The page of erased content: when it was erased, by which receipt, and what stays.

A link to erased content is never a plain 404: the page tells that it was erased. The
page tells nothing about the content.
"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse

from inspector.web import forgetting, refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import NotFoundError, Refusal
from memoryhub.queries.forget import erasure_views, erasures


def render_page(
    request: HttpRequest, visitor: Visitor, refusal: Refusal, *, user_id: str = ""
) -> HttpResponse:
    """Render the page of erased content. Three queries.

    With the `user_id` that an officer looked up, the page offers a readmission.
    """
    erasure = refusal.detail.get("erasure")
    if not isinstance(erasure, str):
        return refusals.render_refusal(request, refusal)
    try:
        line = erasures.get_erasure(visitor.project.id, UUID(erasure))
    except NotFoundError:
        return refusals.render_refusal(request, refusal)
    progress = forgetting.build_progress(line)
    context = {
        "line": line,
        "person": refusal.code == "subject_erased",
        "since": progress.steps[0].at or line.confirmed_at,
        "complete": line.state == "complete",
        "receipt": erasure_views.get_receipt_id(line.id),
        "stays": erasure_views.get_remains(line.id),
        "user_id": user_id,
        "words": forgetting,
    }
    return shell.render_page(
        request,
        "inspector/forget/erasures/gone.html",
        context,
        visitor=visitor,
        section="privacy" if visitor.officer else "",
        status=refusals.get_status(refusal),
    )
