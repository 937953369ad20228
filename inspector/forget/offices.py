"""Offices: what the console of privacy shares. Its screens are for officers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from inspector.access import access
from inspector.lists import screens
from inspector.web import shell
from inspector.web.places import Place
from memoryhub.models.access.operators import Membership
from memoryhub.models.subjects import Subject
from memoryhub.queries.people import profiles


def enter(request: HttpRequest, project: str) -> Place:
    """The project, for somebody who looks. Raises RoleError."""
    place = access.find_place(request, project)
    place.require(Membership.Role.OFFICER)
    return place


def act(request: HttpRequest, project: str) -> Place:
    """The project, for somebody about to act. Raises RoleError, SudoError."""
    place = enter(request, project)
    access.require_recent_sign_in(request)
    return place


def find_subject(place: Place, subject: UUID) -> Subject:
    """A subject of the project. Raises NotFoundError, SubjectErasedError."""
    return profiles.get_subject(place.project.id, subject)


#: Lists of the console.
CONSOLE = screens.project_scope("privacy", enter=enter)


def page(
    request: HttpRequest,
    place: Place,
    template: str,
    context: dict[str, Any],
    *,
    tab: str,
    status: int = 200,
) -> HttpResponse:
    """A screen of the console; `tab` is the one of its screens that it belongs to."""
    return shell.page(
        request,
        f"inspector/{template}.html",
        {"tab": tab, **context},
        place=place,
        section="privacy",
        status=status,
    )
