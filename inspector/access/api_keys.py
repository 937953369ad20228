from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.web import refusals, shell
from inspector.web.places import Place
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.text import user_ids
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES, ApiKey
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.access import api_keys
from memoryhub.services.people import subjects

#: Days until a new key ends, as the form offers them; 0 is never.
EXPIRIES = (30, 90, 365, 0)
PROPOSED_DAYS = 90
SHOWN = 200
_NONCE = "api_key_form"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What was filled in, shown again when it does not do."""

    scopes: tuple[str, ...] = MEMORY_SCOPES
    days: int = PROPOSED_DAYS
    user_id: str = ""
    problem: str = ""
    choices: tuple[str, ...] = field(default=(*MEMORY_SCOPES, *SUBJECT_SCOPES))
    expiries: tuple[int, ...] = EXPIRIES


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    place = _owner(request, project)
    rows = ApiKey.objects.filter(project=place.project).order_by("-created_at")
    context = {"keys": rows[:SHOWN], "now": clock.now()}
    return _page(request, place, "index", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest, project: str) -> HttpResponse:
    """Make a key. The answer shows it once, so it is no redirect."""
    place = _owner(request, project)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _form(request, place, Form())
    if not _first_time(request):
        return HttpResponseRedirect(_index(project))
    sent = _sent(request)
    try:
        end = _end(request.POST.get("days", ""))
        api_keys.require_creatable(sent.scopes, expires_at=end)
        row, key = api_keys.create(
            place.project,
            scopes=sent.scopes,
            subject=_subject(place, sent.user_id),
            expires_at=end,
            actor=place.actor,
        )
    except Refusal as refusal:
        shown = Form(
            scopes=sent.scopes,
            days=sent.days,
            user_id=sent.user_id,
            problem=_said(refusal),
        )
        return _form(request, place, shown, status=refusals.status_of(refusal))
    return _made(request, place, row, key)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def rotate(request: HttpRequest, project: str, prefix: str) -> HttpResponse:
    """A new key in the place of an old one, which ends in a day."""
    place = _owner(request, project)
    access.require_recent_sign_in(request)
    row = _find(place, prefix)
    if request.method != "POST":
        context = {"key": row, "nonce": _nonce(request)}
        return _page(request, place, "rotate", context)
    if not _first_time(request):
        return HttpResponseRedirect(_index(project))
    made, key = api_keys.rotate(row, actor=place.actor)
    return _made(request, place, made, key)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def revoke(request: HttpRequest, project: str, prefix: str) -> HttpResponse:
    """End a key now, once its prefix was typed."""
    place = _owner(request, project)
    access.require_recent_sign_in(request)
    row = _find(place, prefix)
    typed = request.POST.get("prefix", "").strip()
    if request.method != "POST" or typed != row.prefix:
        wrong = request.method == "POST"
        context = {"key": row, "wrong": wrong}
        return _page(request, place, "revoke", context, status=422 if wrong else 200)
    api_keys.revoke(row, actor=place.actor)
    return HttpResponseRedirect(_index(project))


def _owner(request: HttpRequest, project: str) -> Place:
    place = access.find_place(request, project)
    place.require(Membership.Role.OWNER)
    return place


def _find(place: Place, prefix: str) -> ApiKey:
    """A key of the project that still opens something, or 404."""
    rows = ApiKey.objects.select_related("project", "subject")
    row = rows.filter(project=place.project, prefix=prefix, revoked_at=None).first()
    if row is None:
        raise Http404
    return row


def _sent(request: HttpRequest) -> Form:
    days = request.POST.get("days", "")
    return Form(
        scopes=tuple(request.POST.getlist("scopes")),
        days=int(days) if days in map(str, EXPIRIES) else PROPOSED_DAYS,
        user_id=request.POST.get("user_id", ""),
    )


def _subject(place: Place, user_id: str) -> Subject | None:
    return subjects.find_or_create(place.project.id, user_id) if user_id else None


def _end(days: str) -> datetime | None:
    """When a key ends that is asked for now. Raises InvalidError beside the choices."""
    if days not in map(str, EXPIRIES):
        raise InvalidError(code="expiry_in_past", loc="days")
    return clock.now() + timedelta(days=int(days)) if int(days) else None


def _nonce(request: HttpRequest) -> str:
    """Goes into the form once, so that a form sent twice makes one key."""
    request.session[_NONCE] = secrets.token_urlsafe(16)
    return str(request.session[_NONCE])


def _first_time(request: HttpRequest) -> bool:
    wanted = request.session.pop(_NONCE, None)
    return wanted is not None and request.POST.get("nonce") == wanted


def _form(
    request: HttpRequest, place: Place, form: Form, *, status: int = 200
) -> HttpResponse:
    context = {"form": form, "nonce": _nonce(request)}
    return _page(request, place, "new", context, status=status)


def _made(request: HttpRequest, place: Place, row: ApiKey, key: str) -> HttpResponse:
    return _page(request, place, "made", {"key": row, "secret": key}, status=201)


def _page(
    request: HttpRequest,
    place: Place,
    name: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    template = f"inspector/access/api_keys/{name}.html"
    return shell.page(
        request, template, context, place=place, section="api-keys", status=status
    )


def _index(project: str) -> str:
    return reverse("api-keys", kwargs={"project": project})


def _said(refusal: Refusal) -> str:
    if isinstance(refusal, InvalidError) and refusal.loc == "user_id":
        return f"A user id is {user_ids.RULE}."
    code = getattr(refusal, "invalid_code", refusal.code)
    return _SAID.get(code, refusal.message)


_SAID = {
    "scopes_mixed": "A key reads and writes memory, or exports and forgets subjects; "
    "never both, since what an agent is talked into must not erase.",
    "value": "Choose at least one scope.",
    "expiry_in_past": "Choose from the list when the key ends.",
}
