from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from inspector.web import asof, refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, NotFoundError, Refusal
from memoryhub.models.erasures import Tombstone
from memoryhub.queries import tombstone_values, tombstones
from memoryhub.services.access import audit
from memoryhub.services.forget import tombstones as stones

KINDS = {
    Tombstone.Kind.SUBJECT: "user ids that stay out until they are readmitted",
    Tombstone.Kind.THREAD: "names of threads that are dead for ever",
    Tombstone.Kind.VALUE: "values that may not be written again for their subject",
}
#: Of a value that somebody pastes.
MOST_CHARS = 65_536
_INDEX = "forget/tombstones/index"
_NOBODY = "That is no subject of this project's."


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """Show counts by kind; a POST finds one by its value."""
    if request.method != "POST":
        return _page(request, privacy_pages.enter(request, project))
    visitor = privacy_pages.act(request, project)
    try:
        subject = privacy_pages.find_subject(visitor, _subject(request))
        text = request.POST.get("value", "")[:MOST_CHARS]
        found = tombstone_values.find_value(subject, text)
    except InvalidError as refusal:
        return _page(request, visitor, refusal=refusal)
    # It tells whether it ever had this value: what can't be noted is not shown.
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
    return _page(request, visitor, found=found)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def lift(request: HttpRequest, project: str, tombstone: UUID) -> HttpResponse:
    """Let a value be written again; nobody can lay its tombstone a second time."""
    visitor = privacy_pages.act(request, project)
    line = tombstones.get_tombstone(visitor.project.id, tombstone)
    if line.kind != Tombstone.Kind.VALUE:
        raise NotFoundError
    if request.method == "POST":
        stones.lift(line.id, actor=visitor.actor)
        here = reverse("tombstones", kwargs={"project": project})
        return HttpResponseRedirect(here)
    return privacy_pages.page(
        request, visitor, "forget/tombstones/lift", {"line": line}, tab="tombstones"
    )


def _subject(request: HttpRequest) -> UUID:
    try:
        return UUID(request.POST.get("subject", "")[:64].strip())
    except ValueError:
        raise InvalidError(loc="subject") from None


def _kind(request: HttpRequest) -> str | None:
    kind = request.GET.get("kind", "")
    if kind and kind not in Tombstone.Kind.values:
        raise InvalidError(loc="kind")
    return kind or None


def _page(
    request: HttpRequest,
    visitor: Visitor,
    *,
    found: tuple[tombstones.TombstoneLine, ...] | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    kind = _kind(request)
    listed = tombstones.list_tombstones(
        visitor.project.id,
        kind=kind,
        after=request.GET.get("after") or None,
        limit=asof.limit(request),
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
    status = refusals.status_of(refusal)
    return privacy_pages.page(
        request, visitor, _INDEX, context, tab="tombstones", status=status
    )
