"""An erasure as a page and as a panel: its plan, then how far it is, then the proof."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from inspector import forgetting, offices, refusals
from inspector.places import Place
from memoryhub.errors import Refusal
from memoryhub.models.clock import clock
from memoryhub.models.erasures import Erasure
from memoryhub.queries import erasure_views
from memoryhub.queries.erasures import ErasureLine
from memoryhub.services import erasure_plans, erasure_steps, receipts


def standing(line: ErasureLine) -> dict[str, Any]:
    """What the panel is drawn from: the same bytes for every officer. Two queries."""
    return {
        "line": line,
        "progress": forgetting.progress(line),
        "receipt": erasure_views.get_receipt_id(line.id),
        "thread_name": erasure_views.get_thread_name(line),
    }


def page(
    request: HttpRequest,
    place: Place,
    row: Erasure,
    *,
    refusal: Refusal | None = None,
    problem: str = "",
) -> HttpResponse:
    """The plan with what confirms it while that is possible, else how far it is.

    `problem` says what was refused, where the refusal's own words do not.
    """
    line = ErasureLine.of(row)
    planned = line.state == Erasure.State.PLANNED and line.confirmed_at is None
    over = planned and line.expires_at <= clock.now()
    context = {
        **standing(line),
        "planned": planned and not over,
        "over": over,
        "token": erasure_plans.token(row) if planned and not over else "",
        "problem": problem or (refusal.message if refusal else ""),
        "lost": line.waiting_on == erasure_steps.NEEDLES,
        "stays": erasure_views.get_remains(line.id)
        or receipts.expect(line.scope, line.residue),
        "words": forgetting,
        "typed": request.POST.get("typed", "")[:40],
    }
    status = refusals.status_of(refusal) if refusal else 200
    return offices.page(
        request, place, "erasures/show", context, tab="erasures", status=status
    )
