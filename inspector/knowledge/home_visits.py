"""Visits of a subject's home thread, which holds the subject's facts and blocks.

The address may name any thread of the subject. Without a home the visit is of the
named thread.
"""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest

from inspector.lists import visits
from inspector.lists.visits import Visit
from inspector.memory import editing
from inspector.web.visitors import Visitor
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.homes import find_home


def find_home_visit(request: HttpRequest, project: str, thread: str) -> Visit:
    """Find the home thread by any thread of its subject. At most five queries."""
    visit = visits.find(request, project, thread)
    home = find_home(visit.row.subject)
    if visit.row.home or home is None:
        return visit
    # A moment of one thread does not apply to another.
    found = visits.find_now(request, project, home.name)
    return replace(visit, row=found.row, moment=found.moment, visitor=found.visitor)


def require_editor(
    request: HttpRequest, project: str, thread: str
) -> tuple[Visitor, Thread]:
    """Return an editor and the home thread. Raises as `editing.require_editor`."""
    visit = find_home_visit(request, project, thread)
    return editing.require_editor(request, project, visit.row.name)
