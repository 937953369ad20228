"""Home visits: what is known of a subject is looked at, and noted, at its home thread.

Whichever thread of the subject the address names; at that one while there is no home.
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


def find(request: HttpRequest, project: str, thread: str) -> Visit:
    """Find the home thread by any of its subject's. At most five queries."""
    visit = visits.find(request, project, thread)
    home = find_home(visit.row.subject)
    if visit.row.home or home is None:
        return visit
    # Moments of one thread are none of another.
    found = visits.find_now(request, project, home.name)
    return replace(visit, row=found.row, moment=found.moment, visitor=found.visitor)


def find_editing(
    request: HttpRequest, project: str, thread: str
) -> tuple[Visitor, Thread]:
    """Find the same, and who edits there. Raises as `editing.find` does."""
    visit = find(request, project, thread)
    return editing.find(request, project, visit.row.name)
