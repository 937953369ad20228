from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.web import asof, exports, records, shell
from inspector.web.places import Place
from memoryhub.queries.export import imports
from memoryhub.queries.export.imports import Source
from memoryhub.queries.lists.cursors import Batch


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """Recorded runs by where they came from."""
    place = access.find_place(request, project)
    found = _batch(request, place)
    context = {
        "sources": found.items,
        "more": urlencode({"after": found.next}) if found.next else "",
        "exports": exports.links(request.path),
        "continued": "after" in request.GET,
        "cut": any(line.cut for line in found.items),
        "looked_at": imports.REWARDS,
    }
    return shell.page(
        request,
        "inspector/threads/imports/index.html",
        context,
        place=place,
        section="threads",
    )


@require_safe
@signed_in
def export(request: HttpRequest, project: str, kind: str) -> HttpResponseBase:
    """The list as data: one batch as JSON, or all of it as CSV or NDJSON."""
    place = access.find_place(request, project)
    return exports.answer(
        request,
        kind,
        f"{place.project.slug}-imports",
        heading=records.SOURCE,
        record=records.source,
        part=lambda: _batch(request, place),
        parts=lambda: imports.iter_sources(place.project),
    )


def _batch(request: HttpRequest, place: Place) -> Batch[Source]:
    after = request.GET.get("after") or None
    limit = asof.limit(request)
    return imports.list_sources(place.project, after=after, limit=limit)
