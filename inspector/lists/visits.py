"""Visits: a thread as of the moment that the URL names, and what its screens share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from inspector.access import access
from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.web import asof, shell
from inspector.web.asof import AsOf
from inspector.web.places import Place
from memoryhub.models.threads import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Who looks at which thread, and as of when."""

    place: Place
    row: Thread
    moment: AsOf

    @property
    def scene(self) -> Scene:
        return Scene(thread=self.row, at_seq=self.moment.at_seq)


def find(request: HttpRequest, project: str, thread: str) -> Visit:
    """Two queries, one more for `at_turn`. Raises as `access` and `asof.read` do."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    return Visit(place=place, row=row, moment=asof.read(request, row))


def page(
    request: HttpRequest,
    template: str | list[str],
    visit: Visit,
    context: dict[str, Any],
    *,
    scene: Scene | None = None,
    live: bool = True,
    status: int = 200,
) -> HttpResponse:
    """A screen that can be as of a moment, with the banner that says so."""
    moment = visit.moment
    around = {
        **panels.shared(scene or visit.scene),
        "moved": moment,
        "newer": moment.head - moment.seq,
    }
    return shell.page(
        request,
        template,
        around | context,
        place=visit.place,
        section="threads",
        live=live,
        status=status,
    )
