"""Screens of legal holds, which keep data that somebody asks to erase."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from inspector.lists import person_visits
from inspector.lists.screens import ListRequest, Screen, ScreenExport
from inspector.people.subject_acts import (
    HOLDS,
    MOST_DAYS,
    PROBLEMS,
    PROPOSED_DAYS,
    parse_days,
)
from inspector.web import refusals
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import holds
from memoryhub.queries.forget.holds import HoldLine
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.services.people import holds as duties


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[HoldLine]:
    return holds.list_holds(ask.where.project.id, now=ask.now, after=after, limit=limit)


def _build_record(_: str, line: HoldLine) -> Record:
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
    around=lambda _: {"hold_bases": HOLDS},
    export=ScreenExport(
        fields=(
            "hold", "subject", "basis", "opened_by", "reviewer", "opened_at",
            "expires_at", "lifted_at", "lifted_by", "in_force",
        ),
        record=_build_record,
        batch=_list_batch,
        size=None,
    ),
)  # fmt: skip


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def renew(request: HttpRequest, project: str, hold: UUID) -> HttpResponse:
    """Set another end for a hold in force; an ended hold must be opened anew."""
    visitor = privacy_pages.require_acting_officer(request, project)
    line = holds.get_hold(visitor.project.id, hold, now=clock.now())
    days, refusal = str(PROPOSED_DAYS), None
    if request.method == "POST":
        days = request.POST.get("days", "")[:64]
        try:
            until = clock.now() + timedelta(days=parse_days(days))
            if line.in_force:
                duties.renew_hold(line.id, expires_at=until, actor=visitor.actor)
            return HttpResponseRedirect(reverse("holds", kwargs={"project": project}))
        except InvalidError as invalid:
            refusal = invalid
    return privacy_pages.render_page(
        request,
        visitor,
        "people/holds/renew",
        {
            "line": line,
            "hint": person_visits.find_hint(visitor, line.subject),
            "hold_bases": HOLDS,
            "days": days,
            "most": MOST_DAYS,
            "problem": refusals.get_error_text(refusal, PROBLEMS),
        },
        tab="holds",
        status=refusals.get_status(refusal),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def lift(request: HttpRequest, project: str, hold: UUID) -> HttpResponse:
    """Lift a hold; an erasure that it blocked needs a fresh plan. Idempotent."""
    visitor = privacy_pages.require_acting_officer(request, project)
    line = holds.get_hold(visitor.project.id, hold, now=clock.now())
    if request.method == "POST":
        if line.in_force:
            duties.lift_hold(line.id, actor=visitor.actor)
        return HttpResponseRedirect(reverse("holds", kwargs={"project": project}))
    return privacy_pages.render_page(
        request,
        visitor,
        "people/holds/lift",
        {
            "line": line,
            "hint": person_visits.find_hint(visitor, line.subject),
            "hold_bases": HOLDS,
        },
        tab="holds",
    )
