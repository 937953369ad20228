from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.web import refusals, shell
from inspector.web.visitors import RoleError
from memoryhub.errors import NameTakenError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import MAX_SLUG
from memoryhub.queries.access import members
from memoryhub.services.access import operators, projects

_PROBLEMS: refusals.Texts = {
    "slug": f"A project's name has 1 to {MAX_SLUG} characters of a-z, 0-9 and -.",
    NameTakenError: "There is a project of this name already. Choose another name.",
}


@require_safe
@require_signed_in
def redirect_home(request: HttpRequest) -> HttpResponse:
    """Open the operator's only project, or the list to choose from."""
    found = operators.list_projects(access.get_operator(request))
    if len(found) == 1:
        only = reverse("overview", kwargs={"project": found[0].slug})
        return HttpResponseRedirect(only)
    return HttpResponseRedirect(reverse("projects"))


@require_safe
@require_signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the operator's projects; an owner of any project may create another."""
    operator = access.get_operator(request)
    context = {
        "projects": operators.list_projects(operator),
        "may_make": members.is_project_owner(operator),
    }
    return shell.render_page(request, "inspector/access/projects/index.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def create_project(request: HttpRequest) -> HttpResponse:
    """Create a project that the operator owns, and go on to connect an agent."""
    operator = access.get_operator(request)
    if not members.is_project_owner(operator):
        raise RoleError(Membership.Role.OWNER)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _render_form(request)
    slug = request.POST.get("slug", "").strip()
    try:
        projects.require_slug(slug)
        projects.create(slug, owner=operator, actor=f"operator:{operator.id}")
    except Refusal as refusal:
        return _render_form(request, slug=slug[:MAX_SLUG], refusal=refusal)
    return HttpResponseRedirect(reverse("connect", kwargs={"project": slug}))


def _render_form(
    request: HttpRequest, *, slug: str = "", refusal: Refusal | None = None
) -> HttpResponse:
    context = {
        "slug": slug,
        "longest": MAX_SLUG,
        "problem": refusals.get_error_text(refusal, _PROBLEMS),
    }
    return shell.render_page(
        request,
        "inspector/access/projects/new.html",
        context,
        status=refusals.get_status(refusal),
    )
