"""The page of what was erased: it says when, by which receipt, and what stays.

Never a plain 404: who had a link learns what became of it. Nothing here tells what it
was.
"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse

from inspector.web import forgetting, refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import NotFoundError, Refusal
from memoryhub.queries.forget import erasure_views, erasures


def response(
    request: HttpRequest, visitor: Visitor, refusal: Refusal, *, user_id: str = ""
) -> HttpResponse:
    """Answer who opens something that was erased. Three queries.

    With the `user_id` that an officer looked up, it may be readmitted.
    """
    erasure = refusal.detail.get("erasure")
    if not isinstance(erasure, str):
        return refusals.response(request, refusal)
    try:
        line = erasures.get_erasure(visitor.project.id, UUID(erasure))
    except NotFoundError:
        return refusals.response(request, refusal)
    progress = forgetting.progress(line)
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
    return shell.page(
        request,
        "inspector/forget/erasures/gone.html",
        context,
        visitor=visitor,
        section="privacy" if visitor.officer else "",
        status=refusals.status_of(refusal),
    )
