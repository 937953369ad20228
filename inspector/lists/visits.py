"""Visits: a thread as of the URL's moment, and the context its screens share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from inspector.access import access
from inspector.drawing import thread_table
from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels
from inspector.web import asof, shell
from inspector.web.asof import ShownMoment
from inspector.web.read_audit import PLAIN
from inspector.web.visitors import Visitor
from memoryhub.models.threads import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMoment:
    """A thread as of a moment, for any viewer."""

    row: Thread
    moment: ShownMoment

    @property
    def scene(self) -> ThreadScene:
        return ThreadScene(thread=self.row, at_seq=self.moment.at_seq)

    @classmethod
    def from_scene(cls, scene: ThreadScene) -> ThreadMoment:
        """Build the moment of a panel's scene."""
        head, live = scene.thread.head_seq, scene.at_seq is None
        return cls(
            row=scene.thread, moment=ShownMoment(seq=scene.seq, head=head, live=live)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit(ThreadMoment):
    """A visitor at a thread as of a moment."""

    visitor: Visitor

    @property
    def editable(self) -> bool:
        """Tell whether the visitor may edit: an editor, live, in an open thread."""
        return self.visitor.editor and self.moment.live and self.row.status == "open"


def find(request: HttpRequest, project: str, thread: str) -> Visit:
    """Find a thread as of the URL's moment. Two queries, one more for `at_turn`.

    Raises as `access` and `asof.read` do.
    """
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    return Visit(visitor=visitor, row=row, moment=asof.read(request, row))


def find_now(request: HttpRequest, project: str, thread: str) -> Visit:
    """Find a thread as it is now; ignores the URL's moment."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    moment = ShownMoment(seq=row.head_seq, head=row.head_seq, live=True)
    return Visit(visitor=visitor, row=row, moment=moment)


def render_page(
    request: HttpRequest,
    template: str | list[str],
    visit: Visit,
    context: dict[str, Any],
    *,
    scene: ThreadScene | None = None,
    live: bool = True,
    status: int = 200,
) -> HttpResponse:
    """Render a thread's screen as of a moment, with the moment in the pill.

    `standing` marks a page with parts that are not pushed: the pill then tells the
    moment once the thread has moved.
    """
    moment = visit.moment
    scene = scene or visit.scene
    around = {
        "as_of": moment,
        "to_now": _build_now_link(visit, scene, context),
        "standing": "page" if live and moment.live else "",
        "line_then": SimpleLazyObject(
            partial(panels.build_line_at, visit.row, moment.seq)
        ),
    }
    return render_thread_page(
        request,
        template,
        visit.visitor,
        visit.row,
        around | context,
        scene=scene,
        live=live,
        status=status,
    )


def _build_now_link(visit: Visit, scene: ThreadScene, context: dict[str, Any]) -> str:
    """Build the link to now: the newest turn, or the same page without a moment."""
    if visit.moment.turn:
        names = {"project": visit.row.project.slug, "thread": visit.row.name}
        return reverse("turn", kwargs={**names, "n": visit.moment.turns})
    carried = urlencode(scene.list_carried_parameters(), safe=",")
    return f"?{context.get('search') or carried}"


def render_thread_page(
    request: HttpRequest,
    template: str | list[str],
    visitor: Visitor,
    row: Thread,
    context: dict[str, Any],
    *,
    scene: ThreadScene | None = None,
    live: bool = False,
    status: int = 200,
) -> HttpResponse:
    """Render a page about a thread, such as a form; as of now without a scene."""
    shared = panels.build_shared_context(scene or ThreadScene(thread=row))
    route = request.resolver_match
    words = partial(thread_table.find_title_words, shared["thread"])
    # The heading calls the function, once: a page without the heading asks nothing.
    shared["title_words"] = "" if not route or route.url_name in PLAIN else words
    return shell.render_page(
        request,
        template,
        shared | context,
        visitor=visitor,
        section="threads",
        live=live,
        status=status,
    )
