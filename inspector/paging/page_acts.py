from __future__ import annotations

from typing import Any, get_args

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import outcomes
from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.web import refusals, shell
from inspector.web.places import Place
from memoryhub.errors import InvalidError, Refusal, StaleError
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import previews
from memoryhub.queries.paging.previews import Preview
from memoryhub.services.paging import operator_pages
from memoryhub.services.paging.operator_pages import Act, Verb

VERBS: tuple[Verb, ...] = get_args(Verb)
_MOVED = "What this would do has changed since you looked. Here it is anew."


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def act(
    request: HttpRequest, project: str, thread: str, page: str, verb: str
) -> HttpResponse:
    """Pin, unpin, map or evict a page: a GET shows what would happen, a POST does it.

    Done is only what was shown; once it would come out differently it is shown anew.
    """
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    asked = next((each for each in VERBS if each == verb), None)
    if asked is None:
        raise Http404
    place.require(Membership.Role.EDITOR)
    level = _level(request)
    command = operator_pages.command_of(row, asked, page, level=level)
    around = {"page": page, "verb": asked, "level": level}
    try:
        found = previews.get_preview(row, command, page_id=page)
        if request.method == "POST":
            if request.POST.get("seen") != found.digest:
                raise StaleError
            return _done(request, place, row, command, found)
    except StaleError:
        found = previews.get_preview(row, command, page_id=page)
        return _page(request, place, row, around, found, problem=StaleError())
    except Refusal as refusal:
        if refusals.status_of(refusal) in (404, 410):
            raise
        return _page(request, place, row, around, problem=refusal)
    return _page(request, place, row, around, found)


def _done(
    request: HttpRequest, place: Place, row: Thread, command: Act, found: Preview
) -> HttpResponse:
    operator_pages.act(row, command, actor=place.actor, if_match=found.seq)
    names = {"project": place.project.slug, "thread": row.name}
    url = reverse("page", kwargs={**names, "page": command.page_id})
    return HttpResponseRedirect(url)


def _page(
    request: HttpRequest,
    place: Place,
    row: Thread,
    around: dict[str, Any],
    found: Preview | None = None,
    *,
    problem: Refusal | None = None,
) -> HttpResponse:
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row)),
        **around,
        **(outcomes.told(found) if found else {}),
        "problem": _said(problem),
    }
    # A look is no command: that it would be refused is what it shows.
    refused = problem is not None and request.method == "POST"
    return shell.page(
        request,
        "inspector/paging/pages/act.html",
        context,
        place=place,
        section="threads",
        status=refusals.status_of(problem) if problem and refused else 200,
    )


def _said(problem: Refusal | None) -> str:
    if problem is None:
        return ""
    return _MOVED if isinstance(problem, StaleError) else problem.sentence


def _level(request: HttpRequest) -> int:
    """The level to map at, as the form or the URL has it. Raises InvalidError."""
    sent = request.POST if request.method == "POST" else request.GET
    text = sent.get("level", "0")
    if text not in ("0", "1", "2", "3"):
        raise InvalidError(loc="level")
    return int(text)
