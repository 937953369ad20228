from __future__ import annotations

from dataclasses import replace

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.drawing import maps, scenes
from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels, visits
from inspector.lists.visits import Visit
from inspector.replay import moments
from inspector.threads import events
from inspector.web import asof
from inspector.web.search import NOUNS
from memoryhub.errors import InvalidError
from memoryhub.kernel.text import names
from memoryhub.queries.threads import forks

SPEEDS = ("0.5", "1", "2", "5", "10")
#: Former names of tabs in old links, each with the present tab and view.
OLD_TABS = {
    "summary": ("changes", ""),
    "messages": ("", "conversation"),
    "working-memory": ("memory", ""),
}


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show a thread at a moment, with the deck that moves the moment."""
    visit = visits.find(request, project, thread)
    scene = _build_scene(request, visit)
    context = {
        **moments.PANELS["moment"].context(scene),
        **moments.PANELS["map"].context(scene),
        "standing": "",
        "speeds": SPEEDS,
        "landing": events.find_landing(request, visit),
        "origin": forks.find_origin(visit.row),
        "now_x": maps.to_percent(max(1, scene.seq), visit.row.head_seq),
    }
    return visits.render_page(
        request, "inspector/threads/timeline/show.html", visit, context, scene=scene
    )


@require_safe
@require_signed_in_panel
def show_panel(
    request: HttpRequest, project: str, thread: str, panel: str
) -> HttpResponse:
    """Show one panel, as its page includes it and the hub pushes it."""
    if panel not in moments.PANELS:
        raise Http404
    scene = _build_scene(request, visits.find(request, project, thread))
    text = panels.render_panel(moments.PANELS[panel], scene)
    return HttpResponse(text, headers={"MH-Panel": "1"})


@require_safe
@require_signed_in
def redirect_old_address(
    request: HttpRequest, project: str, thread: str, tab: str = "", view: str = ""
) -> HttpResponse:
    """Redirect a former address to the present address of its content."""
    visit = visits.find(request, project, thread)
    scene = replace(_build_scene(request, visit), tab=tab or scenes.TABS[0])
    scene = replace(scene, view=view or scenes.VIEWS[0])
    kwargs = {"project": project, "thread": thread}
    query = f"?{scene.query()}" if scene.query() else ""
    return HttpResponseRedirect(reverse("thread", kwargs=kwargs) + query)


def _build_scene(request: HttpRequest, visit: Visit) -> ThreadScene:
    row, words = visit.row, request.GET
    tab, view = words.get("tab", ""), words.get("view", "")
    tab, view = OLD_TABS.get(tab, (tab, view))
    base = asof.read_number(request, "base")
    hidden = words.get("hide", "").split()
    return ThreadScene(
        thread=row,
        at_seq=visit.moment.at_seq,
        view=view if view in scenes.VIEWS else scenes.VIEWS[0],
        tab=tab if tab in scenes.TABS else scenes.TABS[0],
        opened=_parse_opened(request),
        base_seq=None if base is None else min(base, row.head_seq),
        hidden=tuple(word for word in NOUNS if word in hidden),
        group=_read_name(words.get("group", "")),
        left=_read_name(words.get("left", "")),
        passing=words.get("passing") == "1",
    )


def _read_name(word: str) -> str:
    return word if names.is_valid(word) else ""


def _parse_opened(request: HttpRequest) -> frozenset[int]:
    words = [word for word in request.GET.get("open", "").split(",") if word]
    plain = all(word.isascii() and word.isdigit() and len(word) < 19 for word in words)
    if not plain or len(words) > scenes.MAX_OPEN_EVENTS:
        raise InvalidError(loc="open")
    return frozenset(int(word) for word in words)
