"""The retention policy as forms and URLs word it."""

from __future__ import annotations

from copy import copy

from django.http import HttpRequest

from memoryhub.errors import InvalidError
from memoryhub.models.projects import Project
from memoryhub.services.access import projects

FIELD = "retention_idle_days"
DAYS_TEXT = (
    "Days are a number from 1 to 36,500; leave them out to keep threads for ever."
)
_NOT_OWNED = (
    "Only owners may let a thread go earlier than the project does, since what was "
    "retired is erased for ever."
)


def days_text(*, owner: bool) -> str:
    """Word which days a thread may be given."""
    return DAYS_TEXT if owner else f"{DAYS_TEXT} {_NOT_OWNED}"


def read(text: str) -> int | None:
    """The days of a form; none keep for ever. Raises InvalidError."""
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise InvalidError(loc=FIELD)
    projects.require_idle_days(int(text))
    return int(text)


def assumed(request: HttpRequest, project: Project) -> Project:
    """The project as it would be with the days that the URL asks for, if it does.

    Raises InvalidError.
    """
    if FIELD not in request.GET:
        return project
    return with_days(project, read(request.GET[FIELD]))


def with_days(project: Project, days: int | None) -> Project:
    """The project as it would be with this policy; not to be saved."""
    other = copy(project)
    other.retention_idle_days = days
    return other


def text(days: int | None) -> str:
    """Days as a form has them."""
    return "" if days is None else str(days)
