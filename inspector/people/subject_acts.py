from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from inspector.web import refusals
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Operator
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.access import members
from memoryhub.services.people import holds, restrictions

#: What the form proposes, and the longest duty.
PROPOSED_DAYS, MOST_DAYS = 90, holds.LONGEST.days
RESTRICTIONS = {
    "accuracy_contested": "the person says it is wrong",
    "unlawful_objected": "it is unlawful, but the person wants it kept",
    "claims": "the person needs it for a legal claim",
    "objection_pending": "the person objected, and that is being weighed",
}
HOLDS = {
    "expression": "freedom of expression and information",
    "legal_duty": "a law demands that it is kept",
    "public_health": "public health",
    "archiving": "archiving, research or statistics in the public interest",
    "legal_claims": "legal claims",
}
#: What forms of holds and restrictions say in words of their own.
PROBLEMS: refusals.Texts = {
    "basis": "Choose a basis from the list.",
    "expires_at": f"A number of days from 1 to {MOST_DAYS} is wanted.",
    "reviewer": "Choose an officer or an owner of this project.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Hold the form of a hold, as it was filled in."""

    basis: str = ""
    days: str = str(PROPOSED_DAYS)
    reviewer: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def restrict(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Keep agents out, on a basis from the list."""
    visitor = privacy_pages.act(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    refusal: Refusal | None = None
    basis = request.POST.get("basis", "")
    if request.method == "POST":
        try:
            restrictions.restrict(row.id, basis=basis, actor=visitor.actor)
            return _back(visitor, row)
        except InvalidError as invalid:
            refusal = invalid
    context = {
        "subject": row,
        "bases": RESTRICTIONS.items(),
        "basis": basis,
        "problem": refusals.error_text(refusal, PROBLEMS),
    }
    return _page(request, visitor, "people/subjects/restrict", context, refusal)


@require_post
@signed_in
def unrestrict(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Let agents in again; what an open erasure restricts stays so."""
    visitor = privacy_pages.act(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    restrictions.unrestrict(row.id, actor=visitor.actor)
    return _back(visitor, row)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def hold(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Open a duty to keep: on a basis, for a time, and somebody looks at it again."""
    visitor = privacy_pages.act(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    form, refusal = Duty(), None
    officers = members.list_officers(visitor.project)
    if request.method == "POST":
        sent = {name: request.POST.get(name, "")[:64] for name in Duty.__slots__}
        form = Duty(**sent)
        try:
            holds.open_hold(
                row,
                basis=form.basis,
                reviewer=_reviewer(officers, form.reviewer),
                expires_at=clock.now() + timedelta(days=days_of(form.days)),
                actor=visitor.actor,
            )
            return _back(visitor, row)
        except InvalidError as invalid:
            refusal = invalid
    context = {
        "subject": row,
        "form": form,
        "bases": HOLDS.items(),
        "reviewers": [(str(each.id), each.username) for each in officers],
        "most": MOST_DAYS,
        "problem": refusals.error_text(refusal, PROBLEMS),
    }
    return _page(request, visitor, "people/holds/new", context, refusal)


def _reviewer(officers: list[Operator], wanted: str) -> Operator:
    for each in officers:
        if str(each.id) == wanted:
            return each
    raise InvalidError(loc="reviewer")


def days_of(text: str) -> int:
    """Read how many days a hold lasts. Raises InvalidError."""
    plain = text.isascii() and text.isdigit() and len(text) <= 4
    if not plain or not 1 <= int(text) <= MOST_DAYS:
        raise InvalidError(loc="expires_at")
    return int(text)


def _back(visitor: Visitor, row: Subject) -> HttpResponse:
    where = {"project": visitor.project.slug, "subject": row.id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


def _page(
    request: HttpRequest,
    visitor: Visitor,
    template: str,
    context: dict[str, object],
    refusal: Refusal | None,
) -> HttpResponse:
    status = refusals.status_of(refusal)
    return privacy_pages.page(
        request, visitor, template, context, tab="subjects", status=status
    )
