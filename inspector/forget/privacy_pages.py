"""What the pages of the privacy console share: they are for officers."""

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


def enter(request: HttpRequest, project: str) -> Visitor:
    """Find the visitor of a page to read. Raises RoleError."""
    visitor = access.find_visitor(request, project)
    visitor.require(Membership.Role.OFFICER)
    return visitor


def act(request: HttpRequest, project: str) -> Visitor:
    """Find the visitor who is about to act. Raises RoleError, SudoError."""
    visitor = enter(request, project)
    access.require_recent_sign_in(request)
    return visitor


def find_subject(visitor: Visitor, subject: UUID) -> Subject:
    """Find a subject of the project. Raises NotFoundError, SubjectErasedError."""
    return profiles.get_subject(visitor.project.id, subject)


#: Lists of the console.
CONSOLE = screens.project_scope("privacy", enter=enter)


def page(
    request: HttpRequest,
    visitor: Visitor,
    template: str,
    context: dict[str, Any],
    *,
    tab: str,
    status: int = 200,
) -> HttpResponse:
    """Show a screen of the console; `tab` is the one of its screens it belongs to."""
    return shell.page(
        request,
        f"inspector/{template}.html",
        {"tab": tab, **context},
        visitor=visitor,
        section="subjects" if tab == "subjects" else "privacy",
        status=status,
    )
