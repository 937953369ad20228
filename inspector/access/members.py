from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.web import refusals, shell
from inspector.web.places import Place
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.services.access import operators

SHOWN = 200
#: What the button sends that takes somebody out.
LEAVE = "leave"
_SAID = {
    "role": "Choose a role from the list.",
    "username": "No operator who may sign in has this name. Names are made on the "
    "server: manage.py add_operator NAME --project …",
    "member": "This operator is a member already; change the role instead.",
    "own": "Nobody raises their own role.",
    "last_owner": "The project would have no owner; make somebody else owner first.",
}


@require_safe
@signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """Who may look into the project, and what they may do there."""
    place = _owner(request, project)
    rows = _members(place).order_by("operator__username")
    return _page(request, place, "index", {"members": rows[:SHOWN]})


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest, project: str) -> HttpResponse:
    """Let an operator in whom the server knows; nobody is made here."""
    place = _owner(request, project)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _new(request, place)
    try:
        operator = operators.find(request.POST.get("username", "").strip())
        if operator is None:
            raise InvalidError(loc="username")
        if operators.role_in(place.project, operator) is not None:
            raise InvalidError(loc="member")
        role = _role(request)
        operators.set_role(place.project, operator, role, actor=place.actor)
    except Refusal as refusal:
        return _new(request, place, refusal=refusal)
    return _to_index(place)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def change(request: HttpRequest, project: str, operator: UUID) -> HttpResponse:
    """Another role for a member, or none. Their sessions end with the old one."""
    place = _owner(request, project)
    access.require_recent_sign_in(request)
    row = _members(place).filter(operator=operator).first()
    if row is None:
        raise Http404
    if request.method != "POST":
        return _change(request, place, row)
    role = None if LEAVE in request.POST else request.POST.get("role", "")
    try:
        operators.set_role(place.project, row.operator, role, actor=place.actor)
    except Refusal as refusal:
        return _change(request, place, row, refusal=refusal)
    return _to_index(place)


def _owner(request: HttpRequest, project: str) -> Place:
    place = access.find_place(request, project)
    place.require(Membership.Role.OWNER)
    return place


def _members(place: Place) -> Any:
    rows = Membership.objects.select_related("operator")
    return rows.filter(project=place.project)


def _role(request: HttpRequest) -> str:
    role = request.POST.get("role", "")
    if role not in Membership.Role.values:
        raise InvalidError(loc="role")
    return role


def _new(
    request: HttpRequest, place: Place, *, refusal: Refusal | None = None
) -> HttpResponse:
    context = {
        "username": request.POST.get("username", "")[:64],
        "role": request.POST.get("role", Membership.Role.VIEWER),
    }
    return _page(request, place, "new", context, refusal=refusal)


def _change(
    request: HttpRequest,
    place: Place,
    row: Membership,
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    context = {"member": row, "role": row.role}
    return _page(request, place, "change", context, refusal=refusal)


def _page(
    request: HttpRequest,
    place: Place,
    name: str,
    context: dict[str, Any],
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    around = {"roles": Membership.Role.values, "problem": _said(refusal)}
    return shell.page(
        request,
        f"inspector/access/members/{name}.html",
        {**around, **context},
        place=place,
        section="members",
        status=refusals.status_of(refusal) if refusal else 200,
    )


def _to_index(place: Place) -> HttpResponse:
    here = {"project": place.project.slug}
    return HttpResponseRedirect(reverse("members", kwargs=here))


def _said(refusal: Refusal | None) -> str:
    if not isinstance(refusal, InvalidError):
        return refusal.message if refusal else ""
    code = refusal.invalid_code
    return _SAID.get(code) or _SAID.get(refusal.loc) or refusal.message
