"""Holds: duties to keep what somebody asks to forget."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from inspector.lists.screens import Export, ListRequest, Screen
from inspector.people.subject_acts import MOST_DAYS, PROBLEMS, PROPOSED_DAYS, days_of
from inspector.web import refusals
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import holds
from memoryhub.queries.forget.holds import HoldLine
from memoryhub.queries.lists.cursors import Batch
from memoryhub.services.people import holds as duties


def _batch(ask: ListRequest[Visitor], after: str | None, limit: int) -> Batch[HoldLine]:
    return holds.list_holds(ask.where.project.id, now=ask.now, after=after, limit=limit)


def _record(_: str, line: HoldLine) -> Record:
    return {
        "hold": str(line.id),
        "subject": str(line.subject),
        "basis": line.basis,
        "opened_by": line.opened_by,
        "reviewer": line.reviewer,
        "opened_at": line.opened_at.isoformat(),
        "expires_at": line.expires_at.isoformat(),
        "lifted_at": line.lifted_at.isoformat() if line.lifted_at else None,
        "lifted_by": line.lifted_by,
        "in_force": line.in_force,
    }


SCREEN = Screen(
    folder="people/holds",
    scope=privacy_pages.CONSOLE,
    export=Export(
        fields=(
            "hold", "subject", "basis", "opened_by", "reviewer", "opened_at",
            "expires_at", "lifted_at", "lifted_by", "in_force",
        ),
        record=_record,
        batch=_batch,
        size=None,
    ),
)  # fmt: skip


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def renew(request: HttpRequest, project: str, hold: UUID) -> HttpResponse:
    """Give a hold another end; one that is over is opened anew instead."""
    visitor = privacy_pages.act(request, project)
    line = holds.get_hold(visitor.project.id, hold, now=clock.now())
    days, refusal = str(PROPOSED_DAYS), None
    if request.method == "POST":
        days = request.POST.get("days", "")[:64]
        try:
            until = clock.now() + timedelta(days=days_of(days))
            if line.in_force:
                duties.renew(line.id, expires_at=until, actor=visitor.actor)
            return HttpResponseRedirect(reverse("holds", kwargs={"project": project}))
        except InvalidError as invalid:
            refusal = invalid
    return privacy_pages.page(
        request,
        visitor,
        "people/holds/renew",
        {
            "line": line,
            "days": days,
            "most": MOST_DAYS,
            "problem": refusals.error_text(refusal, PROBLEMS),
        },
        tab="holds",
        status=refusals.status_of(refusal),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def lift(request: HttpRequest, project: str, hold: UUID) -> HttpResponse:
    """End a hold; what it held back needs a fresh plan. Twice is once."""
    visitor = privacy_pages.act(request, project)
    line = holds.get_hold(visitor.project.id, hold, now=clock.now())
    if request.method == "POST":
        if line.in_force:
            duties.lift(line.id, actor=visitor.actor)
        return HttpResponseRedirect(reverse("holds", kwargs={"project": project}))
    return privacy_pages.page(
        request, visitor, "people/holds/lift", {"line": line}, tab="holds"
    )
