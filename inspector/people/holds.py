from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access.access import signed_in
from inspector.forget import offices, privacy_records
from inspector.people.subject_acts import MOST_DAYS, PROPOSED_DAYS, days_of, said_of
from inspector.web import asof, exports, refusals
from inspector.web.places import Place
from memoryhub.errors import InvalidError
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import holds
from memoryhub.queries.forget.holds import HoldLine
from memoryhub.queries.lists.cursors import Batch, walk
from memoryhub.services.people import holds as duties

_CHUNK = 200


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    place = offices.enter(request, project)
    context = offices.listing(request, _batch(request, place))
    return offices.page(request, place, "people/holds/index", context, tab="holds")


@require_safe
@signed_in
def export(request: HttpRequest, project: str, kind: str) -> HttpResponseBase:
    """The list as data: one batch as JSON, or all of it as CSV or NDJSON."""
    place = offices.enter(request, project)
    now = clock.now()
    return exports.answer(
        request,
        kind,
        f"{place.project.slug}-holds",
        heading=privacy_records.HOLD,
        record=privacy_records.hold,
        part=lambda: _batch(request, place),
        parts=lambda: walk(
            lambda after: holds.list_holds(
                place.project.id, now=now, after=after, limit=_CHUNK
            )
        ),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def renew(request: HttpRequest, project: str, hold: UUID) -> HttpResponse:
    """Give a hold another end; one that is over is opened anew instead."""
    place = offices.act(request, project)
    line = holds.get_hold(place.project.id, hold, now=clock.now())
    days, refusal = str(PROPOSED_DAYS), None
    if request.method == "POST":
        days = request.POST.get("days", "")[:64]
        try:
            until = clock.now() + timedelta(days=days_of(days))
            if line.in_force:
                duties.renew(line.id, expires_at=until, actor=place.actor)
            return HttpResponseRedirect(reverse("holds", kwargs={"project": project}))
        except InvalidError as invalid:
            refusal = invalid
    return offices.page(
        request,
        place,
        "people/holds/renew",
        {"line": line, "days": days, "most": MOST_DAYS, "problem": said_of(refusal)},
        tab="holds",
        status=refusals.status_of(refusal) if refusal else 200,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def lift(request: HttpRequest, project: str, hold: UUID) -> HttpResponse:
    """End a hold; what it held back needs a fresh plan. Twice is once."""
    place = offices.act(request, project)
    line = holds.get_hold(place.project.id, hold, now=clock.now())
    if request.method == "POST":
        if line.in_force:
            duties.lift(line.id, actor=place.actor)
        return HttpResponseRedirect(reverse("holds", kwargs={"project": project}))
    return offices.page(
        request, place, "people/holds/lift", {"line": line}, tab="holds"
    )


def _batch(request: HttpRequest, place: Place) -> Batch[HoldLine]:
    return holds.list_holds(
        place.project.id,
        now=clock.now(),
        after=request.GET.get("after") or None,
        limit=asof.limit(request),
    )
