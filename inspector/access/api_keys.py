from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.text import user_ids
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES, ApiKey
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.access import api_keys as keys
from memoryhub.services.access import api_keys
from memoryhub.services.people import subjects

#: Days until a new key expires, as the form offers them; 0 is never.
EXPIRIES = (30, 90, 365, 0)
PROPOSED_DAYS = 90
SHOWN = 200
_NONCE = "api_key_form"
#: Texts for what is wrong with a form.
PROBLEMS: refusals.Texts = {
    "scopes_mixed": "A key either reads and writes memory, or exports and forgets "
    "subjects; never both, so that a deceived agent can not erase.",
    "name": "A name holds letters, digits and . _ : @ - only, at most "
    f"{api_keys.MAX_NAME} of them.",
    "scopes": "Choose at least one scope.",
    "user_id": f"A user id is {user_ids.RULE}.",
    "expiry_in_past": "Choose from the list when the key expires.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyForm:
    """Fields of a new key as the operator sent them, shown again after a refusal."""

    name: str = ""
    scopes: tuple[str, ...] = MEMORY_SCOPES
    days: int = PROPOSED_DAYS
    user_id: str = ""
    problem: str = ""
    choices: tuple[str, ...] = field(default=(*MEMORY_SCOPES, *SUBJECT_SCOPES))
    expiries: tuple[int, ...] = EXPIRIES
    longest: int = api_keys.MAX_NAME


@require_safe
@require_signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    visitor = access.require_owner(request, project)
    rows = keys.list_keys(visitor.project, limit=SHOWN)
    context = {"keys": rows, "now": clock.now()}
    return _render_page(request, visitor, "index", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def create_key(request: HttpRequest, project: str) -> HttpResponse:
    """Create a key. The answer shows the key once, so it is no redirect."""
    visitor = access.require_owner(request, project)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _render_form(request, visitor, ApiKeyForm())
    if not take_nonce(request):
        return HttpResponseRedirect(_build_index_url(project))
    sent = _parse_form(request)
    try:
        end = _compute_end(request.POST.get("days", ""))
        api_keys.require_creatable(sent.scopes, name=sent.name, expires_at=end)
        row, key = api_keys.create(
            visitor.project,
            name=sent.name,
            scopes=sent.scopes,
            subject=_ensure_subject(visitor, sent.user_id),
            expires_at=end,
            actor=visitor.actor,
        )
    except Refusal as refusal:
        shown = replace(sent, problem=refusals.get_error_text(refusal, PROBLEMS))
        return _render_form(
            request, visitor, shown, status=refusals.get_status(refusal)
        )
    return _render_created(request, visitor, row, key)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def rotate(request: HttpRequest, project: str, prefix: str) -> HttpResponse:
    """Create a key in place of an old key, which expires in a day."""
    visitor = access.require_owner(request, project)
    access.require_recent_sign_in(request)
    row = keys.get_key(visitor.project, prefix)
    if request.method != "POST":
        context = {"key": row, "nonce": make_nonce(request)}
        return _render_page(request, visitor, "rotate", context)
    if not take_nonce(request):
        return HttpResponseRedirect(_build_index_url(project))
    made, key = api_keys.rotate(row, actor=visitor.actor)
    return _render_created(request, visitor, made, key)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def revoke(request: HttpRequest, project: str, prefix: str) -> HttpResponse:
    """Revoke a key at once, after the operator typed its prefix."""
    visitor = access.require_owner(request, project)
    access.require_recent_sign_in(request)
    row = keys.get_key(visitor.project, prefix)
    typed = request.POST.get("prefix", "").strip()
    if request.method != "POST" or typed != row.prefix:
        wrong = request.method == "POST"
        context = {"key": row, "wrong": wrong}
        return _render_page(
            request, visitor, "revoke", context, status=422 if wrong else 200
        )
    api_keys.revoke(row, actor=visitor.actor)
    return HttpResponseRedirect(_build_index_url(project))


def _parse_form(request: HttpRequest) -> ApiKeyForm:
    days = request.POST.get("days", "")
    return ApiKeyForm(
        name=request.POST.get("name", "").strip(),
        scopes=tuple(request.POST.getlist("scopes")),
        days=int(days) if days in map(str, EXPIRIES) else PROPOSED_DAYS,
        user_id=request.POST.get("user_id", ""),
    )


def _ensure_subject(visitor: Visitor, user_id: str) -> Subject | None:
    return subjects.find_or_create(visitor.project.id, user_id) if user_id else None


def _compute_end(days: str) -> datetime | None:
    """Compute when a new key expires. Raises InvalidError for days not offered."""
    if days not in map(str, EXPIRIES):
        raise InvalidError(code="expiry_in_past", loc="days")
    return clock.now() + timedelta(days=int(days)) if int(days) else None


def make_nonce(request: HttpRequest) -> str:
    """Make a nonce for the form, so that a form sent twice creates one key."""
    request.session[_NONCE] = secrets.token_urlsafe(16)
    return str(request.session[_NONCE])


def take_nonce(request: HttpRequest) -> bool:
    """Take the form's nonce; return False if the form was sent before."""
    wanted = request.session.pop(_NONCE, None)
    return wanted is not None and request.POST.get("nonce") == wanted


def _render_form(
    request: HttpRequest, visitor: Visitor, form: ApiKeyForm, *, status: int = 200
) -> HttpResponse:
    context = {"form": form, "nonce": make_nonce(request)}
    return _render_page(request, visitor, "new", context, status=status)


def _render_created(
    request: HttpRequest, visitor: Visitor, row: ApiKey, key: str
) -> HttpResponse:
    return _render_page(
        request, visitor, "made", {"key": row, "secret": key}, status=201
    )


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    name: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    template = f"inspector/access/api_keys/{name}.html"
    return shell.render_page(
        request, template, context, visitor=visitor, section="api-keys", status=status
    )


def _build_index_url(project: str) -> str:
    return reverse("api-keys", kwargs={"project": project})
