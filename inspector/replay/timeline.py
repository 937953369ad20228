from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in, signed_in_panel
from inspector.drawing import scenes
from inspector.drawing.scenes import Scene
from inspector.lists import panels, visits
from inspector.lists.visits import Visit
from inspector.replay import moments
from inspector.web import asof
from inspector.web.search import NOUNS
from memoryhub.errors import InvalidError
from memoryhub.queries.threads import timeline

SPEEDS = ("0.5", "1", "2", "5", "10")


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """A thread at a moment, with the scrubber that moves it."""
    visit = visits.find(request, project, thread)
    scene = _scene(request, visit)
    context = {
        **moments.PANELS["moment"].context(scene),
        "speeds": SPEEDS,
        "minimap": timeline.get_minimap(visit.row),
    }
    return visits.page(
        request, "inspector/threads/timeline/show.html", visit, context, scene=scene
    )


@require_safe
@signed_in_panel
def panel(request: HttpRequest, project: str, thread: str, panel: str) -> HttpResponse:
    """One panel: what its page includes and the hub pushes."""
    if panel not in moments.PANELS:
        raise Http404
    scene = _scene(request, visits.find(request, project, thread))
    text = panels.render(moments.PANELS[panel], scene)
    return HttpResponse(text, headers={"MH-Panel": "1"})


@require_safe
@signed_in
def tail(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The newest events as they come; paused it is a link to a moment."""
    visit = visits.find(request, project, thread)
    hidden = [word for word in request.GET.get("hide", "").split() if word in NOUNS]
    context: dict[str, Any] = {
        **moments.PANELS["tail"].context(visit.scene),
        "hidden": hidden,
        "nouns": [(noun, _toggled(hidden, noun)) for noun in NOUNS],
    }
    return visits.page(request, "inspector/threads/events/tail.html", visit, context)


def _toggled(hidden: list[str], noun: str) -> str:
    """The `hide` that shows what is hidden, or hides what is shown."""
    others = [word for word in hidden if word != noun]
    return "+".join(others if noun in hidden else [*others, noun])


def _scene(request: HttpRequest, visit: Visit) -> Scene:
    row = visit.row
    tab, base = request.GET.get("tab", ""), asof.number(request, "base")
    return Scene(
        thread=row,
        at_seq=visit.moment.at_seq,
        tab=tab if tab in scenes.TABS else scenes.TABS[0],
        opened=_opened(request),
        base_seq=None if base is None else min(base, row.head_seq),
    )


def _opened(request: HttpRequest) -> frozenset[int]:
    words = [word for word in request.GET.get("open", "").split(",") if word]
    plain = all(word.isascii() and word.isdigit() and len(word) < 19 for word in words)
    if not plain or len(words) > scenes.OPENED:
        raise InvalidError(loc="open")
    return frozenset(int(word) for word in words)
