"""Shared parts of the privacy console's pages, which are for officers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from inspector.access import access
from inspector.lists import screens
from inspector.web import shell
from inspector.web.visitors import Visitor
from memoryhub.models.access.operators import Membership
from memoryhub.models.subjects import Subject
from memoryhub.queries.people import profiles


def require_officer(request: HttpRequest, project: str) -> Visitor:
    """Return the visitor of a page, an officer. Raises RoleError."""
    visitor = access.require_visitor(request, project)
    visitor.require_role(Membership.Role.OFFICER)
    return visitor


def require_acting_officer(request: HttpRequest, project: str) -> Visitor:
    """Return an officer who signed in lately. Raises RoleError, SudoError."""
    visitor = require_officer(request, project)
    access.require_recent_sign_in(request)
    return visitor


def require_subject(visitor: Visitor, subject: UUID) -> Subject:
    """Return a subject of the project. Raises NotFoundError, SubjectErasedError."""
    return profiles.get_subject(visitor.project.id, subject)


#: Scope of the console's lists.
CONSOLE = screens.build_project_scope("privacy", enter=require_officer)


def render_page(
    request: HttpRequest,
    visitor: Visitor,
    template: str,
    context: dict[str, Any],
    *,
    tab: str,
    status: int = 200,
) -> HttpResponse:
    """Render a screen of the console; `tab` names the tab that the screen is in."""
    return shell.render_page(
        request,
        f"inspector/{template}.html",
        {"tab": tab, **context},
        visitor=visitor,
        section="subjects" if tab == "subjects" else "privacy",
        status=status,
    )
