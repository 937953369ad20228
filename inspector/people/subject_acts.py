from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from inspector.lists import person_visits
from inspector.web import refusals
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Operator
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.access import members
from memoryhub.services.people import holds, restrictions

#: Days of a hold that the form proposes, and the most days of a hold.
PROPOSED_DAYS, MOST_DAYS = 90, holds.MAX_TERM.days
RESTRICTIONS = {
    "accuracy_contested": "the person says it is wrong",
    "unlawful_objected": "it is unlawful, but the person wants it kept",
    "claims": "the person needs it for a legal claim",
    "objection_pending": "the person objected, and that is being weighed",
}
HOLDS = {
    "expression": "freedom of expression and information",
    "legal_duty": "a law requires that it is kept",
    "public_health": "public health",
    "archiving": "archiving, research or statistics in the public interest",
    "legal_claims": "legal claims",
}
#: Texts for what is wrong with forms of holds and restrictions.
PROBLEMS: refusals.Texts = {
    "basis": "Choose a basis from the list.",
    "expires_at": f"Give a number of days from 1 to {MOST_DAYS}.",
    "reviewer": "Choose an officer or an owner of this project.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldForm:
    """Fields of a new hold as the operator sent them."""

    basis: str = ""
    days: str = str(PROPOSED_DAYS)
    reviewer: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def restrict(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Restrict a subject, which keeps agents out, on a basis from the list."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = privacy_pages.require_subject(visitor, subject)
    refusal: Refusal | None = None
    basis = request.POST.get("basis", "")
    if request.method == "POST":
        try:
            restrictions.restrict_subject(row.id, basis=basis, actor=visitor.actor)
            return _redirect_back(visitor, row)
        except InvalidError as invalid:
            refusal = invalid
    context = {
        "subject": row,
        "hint": person_visits.find_hint(visitor, row.id),
        "bases": RESTRICTIONS.items(),
        "basis": basis,
        "problem": refusals.get_error_text(refusal, PROBLEMS),
    }
    return _render_page(request, visitor, "people/subjects/restrict", context, refusal)


@require_post
@require_signed_in
def unrestrict(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Lift a restriction; a subject that an open erasure restricts stays restricted."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = privacy_pages.require_subject(visitor, subject)
    restrictions.unrestrict_subject(row.id, actor=visitor.actor)
    return _redirect_back(visitor, row)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def hold(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Open a legal hold with a basis, an end and a reviewer."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = privacy_pages.require_subject(visitor, subject)
    form, refusal = HoldForm(), None
    officers = members.list_officers(visitor.project)
    if request.method == "POST":
        sent = {name: request.POST.get(name, "")[:64] for name in HoldForm.__slots__}
        form = HoldForm(**sent)
        try:
            holds.open_hold(
                row,
                basis=form.basis,
                reviewer=_require_reviewer(officers, form.reviewer),
                expires_at=clock.now() + timedelta(days=parse_days(form.days)),
                actor=visitor.actor,
            )
            return _redirect_back(visitor, row)
        except InvalidError as invalid:
            refusal = invalid
    context = {
        "subject": row,
        "hint": person_visits.find_hint(visitor, row.id),
        "form": form,
        "bases": HOLDS.items(),
        "reviewers": [(str(each.id), each.username) for each in officers],
        "most": MOST_DAYS,
        "problem": refusals.get_error_text(refusal, PROBLEMS),
    }
    return _render_page(request, visitor, "people/holds/new", context, refusal)


def _require_reviewer(officers: list[Operator], wanted: str) -> Operator:
    for each in officers:
        if str(each.id) == wanted:
            return each
    raise InvalidError(loc="reviewer")


def parse_days(text: str) -> int:
    """Parse the days that a hold lasts. Raises InvalidError."""
    plain = text.isascii() and text.isdigit() and len(text) <= 4
    if not plain or not 1 <= int(text) <= MOST_DAYS:
        raise InvalidError(loc="expires_at")
    return int(text)


def _redirect_back(visitor: Visitor, row: Subject) -> HttpResponse:
    where = {"project": visitor.project.slug, "subject": row.id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    template: str,
    context: dict[str, object],
    refusal: Refusal | None,
) -> HttpResponse:
    status = refusals.get_status(refusal)
    return privacy_pages.render_page(
        request, visitor, template, context, tab="subjects", status=status
    )
