from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in, signed_in_panel
from inspector.forget import erasing, offices, privacy_records
from inspector.web import asof, exports, forgetting
from inspector.web.places import Place
from memoryhub.errors import InvalidError
from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget import erasures
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.lists.cursors import Batch, walk

STATES = tuple(Erasure.State.values)
_CHUNK = 200


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    place = offices.enter(request, project)
    state = _state(request)
    found = _batch(request, place, state)
    more = {"after": found.next, "state": state or ""}
    context = {
        "listed": [(line, forgetting.progress(line)) for line in found.items],
        "state": state,
        "states": STATES,
        "more": urlencode(more) if found.next else "",
        "exports": exports.links(request.path, urlencode({"state": state or ""})),
        "continued": "after" in request.GET,
    }
    return offices.page(
        request, place, "forget/erasures/index", context, tab="erasures"
    )


@require_safe
@signed_in
def export(request: HttpRequest, project: str, kind: str) -> HttpResponseBase:
    """The list as data: one batch as JSON, or all of it as CSV or NDJSON."""
    place = offices.enter(request, project)
    state = _state(request)
    return exports.answer(
        request,
        kind,
        f"{place.project.slug}-erasures",
        heading=privacy_records.ERASURE,
        record=privacy_records.erasure,
        part=lambda: _batch(request, place, state),
        parts=lambda: walk(
            lambda after: erasures.list_erasures(
                place.project.id, state=state, after=after, limit=_CHUNK
            )
        ),
    )


@require_safe
@signed_in
def show(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """A plan with what confirms it, or how far the erasing is."""
    place = offices.enter(request, project)
    row = erasures.get_row(place.project.id, erasure)
    return erasing.page(request, place, row)


@require_safe
@signed_in_panel
def panel(
    request: HttpRequest, project: str, erasure: UUID, panel: str
) -> HttpResponse:
    """How far it is, in the place of what was shown a second ago."""
    place = offices.enter(request, project)
    if panel != "erasure":
        raise Http404
    line = erasures.get_erasure(place.project.id, erasure)
    context: dict[str, Any] = {"place": place, **erasing.standing(line)}
    answer = render(request, "inspector/forget/erasures/_panel.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


def _state(request: HttpRequest) -> str | None:
    state = request.GET.get("state", "")
    if state and state not in STATES:
        raise InvalidError(loc="state")
    return state or None


def _batch(request: HttpRequest, place: Place, state: str | None) -> Batch[ErasureLine]:
    return erasures.list_erasures(
        place.project.id,
        state=state,
        after=request.GET.get("after") or None,
        limit=asof.limit(request),
    )
