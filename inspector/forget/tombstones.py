from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from inspector.web import asof, refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, NotFoundError, Refusal
from memoryhub.models.erasures import Tombstone
from memoryhub.queries import tombstone_values, tombstones
from memoryhub.services.access import audit
from memoryhub.services.forget import tombstones as stones

KINDS = {
    Tombstone.Kind.SUBJECT: "user ids that are refused until you readmit them",
    Tombstone.Kind.THREAD: "names of erased threads, never to be used again",
    Tombstone.Kind.VALUE: "values that may not be written again for their person",
}
#: Characters read of a pasted value.
MOST_CHARS = 65_536
_INDEX = "forget/tombstones/index"
_NOBODY = "This project has no person with this id."


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """Show counts by kind; a POST finds a tombstone by its value."""
    if request.method != "POST":
        return _render_page(request, privacy_pages.require_officer(request, project))
    visitor = privacy_pages.require_acting_officer(request, project)
    try:
        subject = privacy_pages.require_subject(visitor, _parse_subject(request))
        text = request.POST.get("value", "")[:MOST_CHARS]
        found = tombstone_values.find_value(subject, text)
    except InvalidError as refusal:
        return _render_page(request, visitor, refusal=refusal)
    # The answer tells whether the subject ever had this value, so the audit log has
    # the look-up before the officer has the answer.
    audit.record(
        actor=visitor.actor,
        action="tombstone.looked_up",
        project=visitor.project.id,
        target_kind="subject",
        target_id=str(subject.id),
        subject=subject.id,
        outcome="done" if found else "not_found",
        count=len(found),
    )
    return _render_page(request, visitor, found=found)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def lift(request: HttpRequest, project: str, tombstone: UUID) -> HttpResponse:
    """Let a value be written again; its tombstone can't be laid a second time."""
    visitor = privacy_pages.require_acting_officer(request, project)
    line = tombstones.get_tombstone(visitor.project.id, tombstone)
    if line.kind != Tombstone.Kind.VALUE:
        raise NotFoundError
    if request.method == "POST":
        stones.lift_tombstone(line.id, actor=visitor.actor)
        here = reverse("tombstones", kwargs={"project": project})
        return HttpResponseRedirect(here)
    return privacy_pages.render_page(
        request, visitor, "forget/tombstones/lift", {"line": line}, tab="tombstones"
    )


def _parse_subject(request: HttpRequest) -> UUID:
    try:
        return UUID(request.POST.get("subject", "")[:64].strip())
    except ValueError:
        raise InvalidError(loc="subject") from None


def _parse_kind(request: HttpRequest) -> str | None:
    kind = request.GET.get("kind", "")
    if kind and kind not in Tombstone.Kind.values:
        raise InvalidError(loc="kind")
    return kind or None


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    *,
    found: tuple[tombstones.TombstoneLine, ...] | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    kind = _parse_kind(request)
    listed = tombstones.list_tombstones(
        visitor.project.id,
        kind=kind,
        after=request.GET.get("after") or None,
        limit=asof.read_limit(request),
    )
    counts = tombstones.count_tombstones(visitor.project.id)
    more = urlencode({"kind": kind or "", "after": listed.next or ""})
    context: dict[str, Any] = {
        "counts": [(word, text, counts.get(word, 0)) for word, text in KINDS.items()],
        "kind": kind,
        "listed": listed.items,
        "more": more if listed.next else "",
        "found": found,
        "subject": request.POST.get("subject", "")[:64],
        "problem": _NOBODY if refusal else "",
    }
    status = refusals.get_status(refusal)
    return privacy_pages.render_page(
        request, visitor, _INDEX, context, tab="tombstones", status=status
    )
