from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.distribution import PROGRAM
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.queries.access import members
from memoryhub.services.access import operators

SHOWN = 200
#: Form field of the button that removes a member.
LEAVE = "leave"
_PROBLEMS: refusals.Texts = {
    "role": "Choose a role from the list.",
    "username": "No operator who may sign in has this name. Add operators on the "
    f"server: {PROGRAM} add_operator NAME --project …",
    "member": "This operator is a member already; change the role instead.",
    "own": "You cannot raise your own role.",
    "last_owner": "The project needs an owner. Make somebody else owner first.",
}


@require_safe
@require_signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """List the project's members with their roles."""
    visitor = access.require_owner(request, project)
    rows = members.list_members(visitor.project, limit=SHOWN)
    return _render_page(request, visitor, "index", {"members": rows})


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def add_member(request: HttpRequest, project: str) -> HttpResponse:
    """Add an operator whom the server knows as a member; create no operator."""
    visitor = access.require_owner(request, project)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _render_new(request, visitor)
    try:
        operator = operators.find(request.POST.get("username", "").strip())
        if operator is None:
            raise InvalidError(loc="username")
        if operators.get_role(visitor.project, operator) is not None:
            raise InvalidError(loc="member")
        role = _parse_role(request)
        operators.set_role(visitor.project, operator, role, actor=visitor.actor)
    except Refusal as refusal:
        return _render_new(request, visitor, refusal=refusal)
    return _redirect_to_index(visitor)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def change(request: HttpRequest, project: str, operator: UUID) -> HttpResponse:
    """Give a member another role, or none. The change ends the member's sessions."""
    visitor = access.require_owner(request, project)
    access.require_recent_sign_in(request)
    row = members.get_member(visitor.project, operator)
    if request.method != "POST":
        return _render_change(request, visitor, row)
    role = None if LEAVE in request.POST else request.POST.get("role", "")
    try:
        operators.set_role(visitor.project, row.operator, role, actor=visitor.actor)
    except Refusal as refusal:
        return _render_change(request, visitor, row, refusal=refusal)
    return _redirect_to_index(visitor)


def _parse_role(request: HttpRequest) -> str:
    role = request.POST.get("role", "")
    if role not in Membership.Role.values:
        raise InvalidError(loc="role")
    return role


def _render_new(
    request: HttpRequest, visitor: Visitor, *, refusal: Refusal | None = None
) -> HttpResponse:
    context = {
        "username": request.POST.get("username", "")[:64],
        "role": request.POST.get("role", Membership.Role.VIEWER),
    }
    return _render_page(request, visitor, "new", context, refusal=refusal)


def _render_change(
    request: HttpRequest,
    visitor: Visitor,
    row: Membership,
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    context = {"member": row, "role": row.role}
    return _render_page(request, visitor, "change", context, refusal=refusal)


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    name: str,
    context: dict[str, Any],
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    around = {
        "roles": Membership.Role.values,
        "problem": refusals.get_error_text(refusal, _PROBLEMS),
    }
    return shell.render_page(
        request,
        f"inspector/access/members/{name}.html",
        {**around, **context},
        visitor=visitor,
        section="members",
        status=refusals.get_status(refusal),
    )


def _redirect_to_index(visitor: Visitor) -> HttpResponse:
    here = {"project": visitor.project.slug}
    return HttpResponseRedirect(reverse("members", kwargs=here))
