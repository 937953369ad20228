"""The retention policy in forms and URLs."""

from __future__ import annotations

from copy import copy

from django.http import HttpRequest

from memoryhub.errors import InvalidError
from memoryhub.models.projects import Project
from memoryhub.services.access import projects

FIELD = "retention_idle_days"
DAYS_TEXT = "Days are a number from 1 to 36,500; leave empty to keep threads for ever."
_NOT_OWNED = (
    "Only owners may set fewer days than the project has, since retired threads are "
    "erased for ever."
)


def render_days_help(*, owner: bool) -> str:
    """Render the help text on the days that a thread may have."""
    return DAYS_TEXT if owner else f"{DAYS_TEXT} {_NOT_OWNED}"


def read(text: str) -> int | None:
    """Read the days of a form; None keeps threads for ever. Raises InvalidError."""
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise InvalidError(loc=FIELD)
    projects.require_idle_days(int(text))
    return int(text)


def build_assumed_project(request: HttpRequest, project: Project) -> Project:
    """Build the project with the days that the URL asks for, if it does.

    Raises InvalidError.
    """
    if FIELD not in request.GET:
        return project
    return copy_with_days(project, read(request.GET[FIELD]))


def copy_with_days(project: Project, days: int | None) -> Project:
    """Copy a project with this retention policy; callers must not save the copy."""
    other = copy(project)
    other.retention_idle_days = days
    return other


def render_days(days: int | None) -> str:
    """Render days as the text of a form field; empty for None."""
    return "" if days is None else str(days)
