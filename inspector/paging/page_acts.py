from __future__ import annotations

from typing import Any, get_args

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import outcomes
from inspector.lists import visits
from inspector.web import refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal, StaleError
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import previews
from memoryhub.queries.paging.previews import CommandPreview
from memoryhub.services.paging import operator_pages
from memoryhub.services.paging.operator_pages import Act, Verb

VERBS: tuple[Verb, ...] = get_args(Verb)
_PROBLEMS: refusals.Texts = {
    StaleError: "The effect has changed since you looked. Here is a new preview."
}


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def act(
    request: HttpRequest, project: str, thread: str, page: str, verb: str
) -> HttpResponse:
    """Pin, unpin, map or evict a page: a GET shows a preview, a POST performs the act.

    If the outcome would differ from the preview, the POST shows a new preview instead.
    """
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    chosen = next((each for each in VERBS if each == verb), None)
    if chosen is None:
        raise Http404
    visitor.require_role(Membership.Role.EDITOR)
    level = _parse_level(request)
    command = operator_pages.build_command(row, chosen, page, level=level)
    around = {"page": page, "verb": chosen, "level": level}
    try:
        found = previews.get_preview(row, command, page_id=page)
        if request.method == "POST":
            if request.POST.get("seen") != found.digest:
                raise StaleError
            return _perform_act(request, visitor, row, command, found)
    except StaleError:
        found = previews.get_preview(row, command, page_id=page)
        return _render_page(request, visitor, row, around, found, problem=StaleError())
    except Refusal as refusal:
        if refusals.get_status(refusal) in (404, 410):
            raise
        return _render_page(request, visitor, row, around, problem=refusal)
    return _render_page(request, visitor, row, around, found)


def _perform_act(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    command: Act,
    found: CommandPreview,
) -> HttpResponse:
    operator_pages.perform_act(row, command, actor=visitor.actor, if_match=found.seq)
    names = {"project": visitor.project.slug, "thread": row.name}
    url = reverse("page", kwargs={**names, "page": command.page_id})
    return HttpResponseRedirect(url)


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    around: dict[str, Any],
    found: CommandPreview | None = None,
    *,
    problem: Refusal | None = None,
) -> HttpResponse:
    context: dict[str, Any] = {
        **around,
        **(outcomes.build_preview_context(found) if found else {}),
        "problem": refusals.get_error_text(problem, _PROBLEMS, numbers=True),
    }
    # A GET is no command: the page shows the refusal, with status 200.
    refused = problem is not None and request.method == "POST"
    return visits.render_thread_page(
        request,
        "inspector/paging/pages/act.html",
        visitor,
        row,
        context,
        status=refusals.get_status(problem) if problem and refused else 200,
    )


def _parse_level(request: HttpRequest) -> int:
    """Parse the level to map at from the form or the URL. Raises InvalidError."""
    sent = request.POST if request.method == "POST" else request.GET
    text = sent.get("level", "0")
    if text not in ("0", "1", "2", "3"):
        raise InvalidError(loc="level")
    return int(text)
