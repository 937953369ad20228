"""An erasure as a page and as a panel: its plan, then how far it is, then the proof."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from inspector.forget import privacy_pages
from inspector.web import forgetting, refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import PlanStaleError, Refusal
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.forget import erasure_steps, erasures, receipts

#: What the console says in words of its own.
_PROBLEMS: refusals.Texts = {
    PlanStaleError: "Something was written since the plan was made, and nothing was "
    "erased. Here it is counted anew.",
}


def standing(line: ErasureLine) -> dict[str, Any]:
    """Gather what the panel is drawn from, alike for every officer. Two queries."""
    return {
        "line": line,
        "progress": forgetting.progress(line),
        "receipt": erasure_views.get_receipt_id(line.id),
        "thread_name": erasure_views.get_thread_name(line),
        "words": forgetting,
    }


def page(
    request: HttpRequest,
    visitor: Visitor,
    row: Erasure,
    *,
    refusal: Refusal | None = None,
    problem: str = "",
) -> HttpResponse:
    """Show the plan with what confirms it while that is possible, else how far it is.

    `problem` says what was refused, where the refusal's own words do not.
    """
    line = ErasureLine.of(row)
    planned = line.state == Erasure.State.PLANNED and line.confirmed_at is None
    over = planned and line.expires_at <= clock.now()
    stale = isinstance(refusal, PlanStaleError)
    context = {
        **standing(line),
        "planned": planned and not over,
        "over": over,
        "token": erasures.token(row) if planned and not over else "",
        "problem": problem or refusals.error_text(refusal, _PROBLEMS),
        "again": _again(line) if over else "",
        "lost": line.waiting_on == erasure_steps.NEEDLES,
        "stays": erasure_views.get_remains(line.id)
        or receipts.expect(line.scope, line.residue),
        "stale": stale,
        # Of a stale plan it was another count.
        "typed": "" if stale else request.POST.get("typed", "")[:40],
    }
    status = refusals.status_of(refusal)
    return privacy_pages.page(
        request, visitor, "forget/erasures/show", context, tab="erasures", status=status
    )


def _again(line: ErasureLine) -> str:
    """Build the query of a form for what a plan was about."""
    chosen = {
        "scope": line.scope,
        "thread": erasure_views.get_thread_name(line),
        "record": line.seq or "",
        "before": f"{line.before:%Y-%m-%dT%H:%M}" if line.before else "",
        "reason": line.reason,
        "ticket": line.ticket or "",
        "restrict": int(line.restrict),
    }
    return urlencode(chosen)
