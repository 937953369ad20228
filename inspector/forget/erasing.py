"""Erasure as a page and as a panel: the plan, then the progress, then the proof."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from inspector.forget import privacy_pages
from inspector.lists import person_visits
from inspector.web import forgetting, refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import PlanStaleError, Refusal
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.forget import erasure_steps, erasures, receipts

#: Texts of refusals that the console words itself.
_PROBLEMS: refusals.Texts = {
    PlanStaleError: "Something was written after this plan was made, so nothing was "
    "erased. The rows are counted again below.",
}


def build_progress(line: ErasureLine) -> dict[str, Any]:
    """Build the panel's context, alike for every officer. Two queries."""
    return {
        "line": line,
        "progress": forgetting.build_progress(line),
        "receipt": erasure_views.get_receipt_id(line.id),
        "thread_name": erasure_views.get_thread_name(line),
        "home": erasure_views.has_home_thread(line),
        "words": forgetting,
    }


def render_page(
    request: HttpRequest,
    visitor: Visitor,
    row: Erasure,
    *,
    refusal: Refusal | None = None,
    problem: str = "",
) -> HttpResponse:
    """Render the plan with its confirmation form while that is possible, else progress.

    `problem` says what was refused where the refusal's own text does not.
    """
    line = ErasureLine.from_row(row)
    planned = line.state == Erasure.State.PLANNED and line.confirmed_at is None
    over = planned and line.expires_at <= clock.now()
    stale = isinstance(refusal, PlanStaleError)
    context = {
        **build_progress(line),
        "hint": person_visits.find_hint(visitor, line.subject),
        "planned": planned and not over,
        "over": over,
        "token": erasures.build_token(row) if planned and not over else "",
        "problem": problem or refusals.get_error_text(refusal, _PROBLEMS),
        "again": _build_again_query(line) if over else "",
        "lost": line.waiting_on == erasure_steps.NEEDLES,
        "stays": erasure_views.get_remains(line.id)
        or receipts.build_expected_remains(line.scope, line.residue),
        "stale": stale,
        # The operator typed the count of a plan that is stale by now.
        "typed": "" if stale else request.POST.get("typed", "")[:40],
    }
    status = refusals.get_status(refusal)
    return privacy_pages.render_page(
        request, visitor, "forget/erasures/show", context, tab="erasures", status=status
    )


def _build_again_query(line: ErasureLine) -> str:
    """Build the query of a form that plans the same erasure again."""
    chosen = {
        "scope": line.scope,
        "thread": erasure_views.get_thread_name(line),
        "record": line.seq or "",
        "before": f"{line.before:%Y-%m-%dT%H:%M}" if line.before else "",
        "recorded": int(line.clock == "recorded"),
        "reason": line.reason,
        "ticket": line.ticket or "",
        "restrict": int(line.restrict),
    }
    return urlencode(chosen)
