from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import signed_in
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

#: Days until a new key ends, as the form offers them; 0 is never.
EXPIRIES = (30, 90, 365, 0)
PROPOSED_DAYS = 90
SHOWN = 200
_NONCE = "api_key_form"
#: What is wrong with a form, in words.
PROBLEMS: refusals.Texts = {
    "scopes_mixed": "A key reads and writes memory, or exports and forgets subjects; "
    "never both, since what an agent is talked into must not erase.",
    "name": "A name holds letters, digits and . _ : @ - only, at most "
    f"{api_keys.MAX_NAME} of them.",
    "scopes": "Choose at least one scope.",
    "user_id": f"A user id is {user_ids.RULE}.",
    "expiry_in_past": "Choose from the list when the key ends.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Hold what was filled in, to be shown again when it does not do."""

    name: str = ""
    scopes: tuple[str, ...] = MEMORY_SCOPES
    days: int = PROPOSED_DAYS
    user_id: str = ""
    problem: str = ""
    choices: tuple[str, ...] = field(default=(*MEMORY_SCOPES, *SUBJECT_SCOPES))
    expiries: tuple[int, ...] = EXPIRIES
    longest: int = api_keys.MAX_NAME


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    visitor = access.find_owner(request, project)
    rows = keys.list_keys(visitor.project, limit=SHOWN)
    context = {"keys": rows, "now": clock.now()}
    return _page(request, visitor, "index", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest, project: str) -> HttpResponse:
    """Make a key. The answer shows it once, so it is no redirect."""
    visitor = access.find_owner(request, project)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _form(request, visitor, Form())
    if not first_time(request):
        return HttpResponseRedirect(_index(project))
    sent = _sent(request)
    try:
        end = _end(request.POST.get("days", ""))
        api_keys.require_creatable(sent.scopes, name=sent.name, expires_at=end)
        row, key = api_keys.create(
            visitor.project,
            name=sent.name,
            scopes=sent.scopes,
            subject=_subject(visitor, sent.user_id),
            expires_at=end,
            actor=visitor.actor,
        )
    except Refusal as refusal:
        shown = replace(sent, problem=refusals.error_text(refusal, PROBLEMS))
        return _form(request, visitor, shown, status=refusals.status_of(refusal))
    return _made(request, visitor, row, key)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def rotate(request: HttpRequest, project: str, prefix: str) -> HttpResponse:
    """Make a key in the place of an old one, which ends in a day."""
    visitor = access.find_owner(request, project)
    access.require_recent_sign_in(request)
    row = keys.get_key(visitor.project, prefix)
    if request.method != "POST":
        context = {"key": row, "nonce": new_nonce(request)}
        return _page(request, visitor, "rotate", context)
    if not first_time(request):
        return HttpResponseRedirect(_index(project))
    made, key = api_keys.rotate(row, actor=visitor.actor)
    return _made(request, visitor, made, key)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def revoke(request: HttpRequest, project: str, prefix: str) -> HttpResponse:
    """End a key now, once its prefix was typed."""
    visitor = access.find_owner(request, project)
    access.require_recent_sign_in(request)
    row = keys.get_key(visitor.project, prefix)
    typed = request.POST.get("prefix", "").strip()
    if request.method != "POST" or typed != row.prefix:
        wrong = request.method == "POST"
        context = {"key": row, "wrong": wrong}
        return _page(request, visitor, "revoke", context, status=422 if wrong else 200)
    api_keys.revoke(row, actor=visitor.actor)
    return HttpResponseRedirect(_index(project))


def _sent(request: HttpRequest) -> Form:
    days = request.POST.get("days", "")
    return Form(
        name=request.POST.get("name", "").strip(),
        scopes=tuple(request.POST.getlist("scopes")),
        days=int(days) if days in map(str, EXPIRIES) else PROPOSED_DAYS,
        user_id=request.POST.get("user_id", ""),
    )


def _subject(visitor: Visitor, user_id: str) -> Subject | None:
    return subjects.find_or_create(visitor.project.id, user_id) if user_id else None


def _end(days: str) -> datetime | None:
    """Compute when a new key ends. Raises InvalidError beside the choices."""
    if days not in map(str, EXPIRIES):
        raise InvalidError(code="expiry_in_past", loc="days")
    return clock.now() + timedelta(days=int(days)) if int(days) else None


def new_nonce(request: HttpRequest) -> str:
    """Make a word for the form, so that a form sent twice makes one key."""
    request.session[_NONCE] = secrets.token_urlsafe(16)
    return str(request.session[_NONCE])


def first_time(request: HttpRequest) -> bool:
    """Tell whether the form of this request was not sent before."""
    wanted = request.session.pop(_NONCE, None)
    return wanted is not None and request.POST.get("nonce") == wanted


def _form(
    request: HttpRequest, visitor: Visitor, form: Form, *, status: int = 200
) -> HttpResponse:
    context = {"form": form, "nonce": new_nonce(request)}
    return _page(request, visitor, "new", context, status=status)


def _made(
    request: HttpRequest, visitor: Visitor, row: ApiKey, key: str
) -> HttpResponse:
    return _page(request, visitor, "made", {"key": row, "secret": key}, status=201)


def _page(
    request: HttpRequest,
    visitor: Visitor,
    name: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    template = f"inspector/access/api_keys/{name}.html"
    return shell.page(
        request, template, context, visitor=visitor, section="api-keys", status=status
    )


def _index(project: str) -> str:
    return reverse("api-keys", kwargs={"project": project})
