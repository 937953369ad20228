from __future__ import annotations

from typing import Any, get_args

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import outcomes
from inspector.lists import visits
from inspector.web import refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal, StaleError
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import previews
from memoryhub.queries.paging.previews import Preview
from memoryhub.services.paging import operator_pages
from memoryhub.services.paging.operator_pages import Act, Verb

VERBS: tuple[Verb, ...] = get_args(Verb)
_PROBLEMS: refusals.Texts = {
    StaleError: "What this would do has changed since you looked. Here it is anew."
}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def act(
    request: HttpRequest, project: str, thread: str, page: str, verb: str
) -> HttpResponse:
    """Pin, unpin, map or evict a page: a GET shows what would happen, a POST does it.

    Done is only what was shown; once it would come out differently it is shown anew.
    """
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    chosen = next((each for each in VERBS if each == verb), None)
    if chosen is None:
        raise Http404
    visitor.require(Membership.Role.EDITOR)
    level = _level(request)
    command = operator_pages.command_of(row, chosen, page, level=level)
    around = {"page": page, "verb": chosen, "level": level}
    try:
        found = previews.get_preview(row, command, page_id=page)
        if request.method == "POST":
            if request.POST.get("seen") != found.digest:
                raise StaleError
            return _done(request, visitor, row, command, found)
    except StaleError:
        found = previews.get_preview(row, command, page_id=page)
        return _page(request, visitor, row, around, found, problem=StaleError())
    except Refusal as refusal:
        if refusals.status_of(refusal) in (404, 410):
            raise
        return _page(request, visitor, row, around, problem=refusal)
    return _page(request, visitor, row, around, found)


def _done(
    request: HttpRequest, visitor: Visitor, row: Thread, command: Act, found: Preview
) -> HttpResponse:
    operator_pages.act(row, command, actor=visitor.actor, if_match=found.seq)
    names = {"project": visitor.project.slug, "thread": row.name}
    url = reverse("page", kwargs={**names, "page": command.page_id})
    return HttpResponseRedirect(url)


def _page(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    around: dict[str, Any],
    found: Preview | None = None,
    *,
    problem: Refusal | None = None,
) -> HttpResponse:
    context: dict[str, Any] = {
        **around,
        **(outcomes.preview_context(found) if found else {}),
        "problem": refusals.error_text(problem, _PROBLEMS, numbers=True),
    }
    # A look is no command: that it would be refused is what it shows.
    refused = problem is not None and request.method == "POST"
    return visits.thread_page(
        request,
        "inspector/paging/pages/act.html",
        visitor,
        row,
        context,
        status=refusals.status_of(problem) if problem and refused else 200,
    )


def _level(request: HttpRequest) -> int:
    """Read the level to map at from the form or the URL. Raises InvalidError."""
    sent = request.POST if request.method == "POST" else request.GET
    text = sent.get("level", "0")
    if text not in ("0", "1", "2", "3"):
        raise InvalidError(loc="level")
    return int(text)
