from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.queries.access import members
from memoryhub.services.access import operators

SHOWN = 200
#: What the button sends that takes somebody out.
LEAVE = "leave"
_PROBLEMS: refusals.Texts = {
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
    """List who may look into the project, and what they may do there."""
    visitor = access.find_owner(request, project)
    rows = members.list_members(visitor.project, limit=SHOWN)
    return _page(request, visitor, "index", {"members": rows})


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest, project: str) -> HttpResponse:
    """Let an operator in whom the server knows; nobody is made here."""
    visitor = access.find_owner(request, project)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _new(request, visitor)
    try:
        operator = operators.find(request.POST.get("username", "").strip())
        if operator is None:
            raise InvalidError(loc="username")
        if operators.role_in(visitor.project, operator) is not None:
            raise InvalidError(loc="member")
        role = _role(request)
        operators.set_role(visitor.project, operator, role, actor=visitor.actor)
    except Refusal as refusal:
        return _new(request, visitor, refusal=refusal)
    return _to_index(visitor)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def change(request: HttpRequest, project: str, operator: UUID) -> HttpResponse:
    """Give a member another role, or none. Their sessions end with the old one."""
    visitor = access.find_owner(request, project)
    access.require_recent_sign_in(request)
    row = members.get_member(visitor.project, operator)
    if request.method != "POST":
        return _change(request, visitor, row)
    role = None if LEAVE in request.POST else request.POST.get("role", "")
    try:
        operators.set_role(visitor.project, row.operator, role, actor=visitor.actor)
    except Refusal as refusal:
        return _change(request, visitor, row, refusal=refusal)
    return _to_index(visitor)


def _role(request: HttpRequest) -> str:
    role = request.POST.get("role", "")
    if role not in Membership.Role.values:
        raise InvalidError(loc="role")
    return role


def _new(
    request: HttpRequest, visitor: Visitor, *, refusal: Refusal | None = None
) -> HttpResponse:
    context = {
        "username": request.POST.get("username", "")[:64],
        "role": request.POST.get("role", Membership.Role.VIEWER),
    }
    return _page(request, visitor, "new", context, refusal=refusal)


def _change(
    request: HttpRequest,
    visitor: Visitor,
    row: Membership,
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    context = {"member": row, "role": row.role}
    return _page(request, visitor, "change", context, refusal=refusal)


def _page(
    request: HttpRequest,
    visitor: Visitor,
    name: str,
    context: dict[str, Any],
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    around = {
        "roles": Membership.Role.values,
        "problem": refusals.error_text(refusal, _PROBLEMS),
    }
    return shell.page(
        request,
        f"inspector/access/members/{name}.html",
        {**around, **context},
        visitor=visitor,
        section="members",
        status=refusals.status_of(refusal),
    )


def _to_index(visitor: Visitor) -> HttpResponse:
    here = {"project": visitor.project.slug}
    return HttpResponseRedirect(reverse("members", kwargs=here))
