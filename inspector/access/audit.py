from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import chat
from inspector.web import asof, exports, search, shell
from inspector.web.places import Place
from inspector.web.search import Asked
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.queries.access import audit
from memoryhub.queries.access.audit import Line
from memoryhub.queries.lists.cursors import Batch

#: Searches that are a click away.
EXAMPLES = ("content.read", "actor:operator", "erasure.*", "at:<1d")
#: Entries of a batch of an export.
CHUNK = 200


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """Who did what to whose memory, newest first."""
    place, asked = _enter(request, project), _asked(request)
    found = None if asked.error else _batch(request, place, asked, asof.limit(request))
    context: dict[str, Any] = {
        "asked": asked,
        "examples": EXAMPLES,
        "listed": found.items if found else (),
        "more": asked.query(after=found.next) if found and found.next else "",
        "continued": "after" in request.GET,
        "verdict": audit.verify_newest(),
        "exported": exports.links(request.path, asked.query()),
        "links": not asked.error,
    }
    status = 422 if asked.error else 200
    return _page(request, place, "index", context, status=status)


@require_safe
@signed_in
def show(request: HttpRequest, project: str, seq: int) -> HttpResponse:
    """One entry, and where it stands in the chain."""
    place = _enter(request, project)
    line = audit.get_entry(place.project.id, seq)
    if line is None:
        raise Http404
    raw = chat.Room().raw(audit.record(line))
    return _page(request, place, "show", {"line": line, "raw": raw})


@require_safe
@signed_in
def export(request: HttpRequest, project: str, kind: str) -> HttpResponseBase:
    """What a search finds as data: one batch as JSON, or all of it, oldest first."""
    place, asked = _enter(request, project), _asked(request)
    if asked.error:
        return exports.refused(asked.error, status=422)
    return exports.answer(
        request,
        kind,
        f"{place.project.slug}-audit",
        heading=audit.FIELDS,
        record=audit.record,
        part=lambda: _batch(request, place, asked, CHUNK),
        parts=lambda: audit.iter_entries(
            place.project.id, terms=asked.terms, now=clock.now()
        ),
    )


def _enter(request: HttpRequest, project: str) -> Place:
    place = access.find_place(request, project)
    place.require(Membership.Role.OFFICER)
    return place


def _asked(request: HttpRequest) -> Asked:
    return search.asked(request.GET.get("q", ""), search.AUDIT, bare="action")


def _batch(request: HttpRequest, place: Place, asked: Asked, limit: int) -> Batch[Line]:
    return audit.list_entries(
        place.project.id,
        terms=asked.terms,
        now=clock.now(),
        after=request.GET.get("after") or None,
        limit=limit,
    )


def _page(
    request: HttpRequest,
    place: Place,
    template: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    return shell.page(
        request,
        f"inspector/access/audit/{template}.html",
        context,
        place=place,
        section="audit",
        status=status,
    )
