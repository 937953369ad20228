"""Visits: a thread as of the moment that the URL names, and what its screens share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from inspector.access import access
from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.web import asof, shell
from inspector.web.asof import AsOf
from inspector.web.visitors import Visitor
from memoryhub.models.threads import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hold a thread as of a moment, whoever looks."""

    row: Thread
    moment: AsOf

    @property
    def scene(self) -> Scene:
        return Scene(thread=self.row, at_seq=self.moment.at_seq)

    @classmethod
    def of_scene(cls, scene: Scene) -> Place:
        """Find where a panel is."""
        head, live = scene.thread.head_seq, scene.at_seq is None
        return cls(row=scene.thread, moment=AsOf(seq=scene.seq, head=head, live=live))


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit(Place):
    """Hold who looks at which thread, and as of when."""

    visitor: Visitor

    @property
    def editable(self) -> bool:
        """Tell whether who looks may change what is shown: as it is now, and open."""
        return self.visitor.editor and self.moment.live and self.row.status == "open"


def find(request: HttpRequest, project: str, thread: str) -> Visit:
    """Find a thread as of the URL's moment. Two queries, one more for `at_turn`.

    Raises as `access` and `asof.read` do.
    """
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    return Visit(visitor=visitor, row=row, moment=asof.read(request, row))


def find_now(request: HttpRequest, project: str, thread: str) -> Visit:
    """Find a thread as it is now, whatever moment the URL names of another one."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    moment = AsOf(seq=row.head_seq, head=row.head_seq, live=True)
    return Visit(visitor=visitor, row=row, moment=moment)


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
    """Show a screen that can be as of a moment, which the pill says.

    What is not all panels is `standing`: once there is more it says as of when it is.
    """
    moment = visit.moment
    scene = scene or visit.scene
    around = {
        "as_of": moment,
        "to_now": _to_now(visit, scene, context),
        "standing": "page" if live and moment.live else "",
        "line_then": SimpleLazyObject(partial(panels.line_at, visit.row, moment.seq)),
    }
    return thread_page(
        request,
        template,
        visit.visitor,
        visit.row,
        around | context,
        scene=scene,
        live=live,
        status=status,
    )


def _to_now(visit: Visit, scene: Scene, context: dict[str, Any]) -> str:
    """Link to what is now: the newest turn, or the same page without a moment."""
    if visit.moment.turn:
        names = {"project": visit.row.project.slug, "thread": visit.row.name}
        return reverse("turn", kwargs={**names, "n": visit.moment.turns})
    return f"?{context.get('search') or urlencode(scene.carried(), safe=',')}"


def thread_page(
    request: HttpRequest,
    template: str | list[str],
    visitor: Visitor,
    row: Thread,
    context: dict[str, Any],
    *,
    scene: Scene | None = None,
    live: bool = False,
    status: int = 200,
) -> HttpResponse:
    """Show a page about a thread, such as a form: without a scene it is as of now."""
    shared = panels.shared(scene or Scene(thread=row))
    return shell.page(
        request,
        template,
        shared | context,
        visitor=visitor,
        section="threads",
        live=live,
        status=status,
    )
