from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import policy
from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.web import refusals, shell
from inspector.web.places import Place
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import MOST_IDLE_DAYS
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import retention
from memoryhub.services.threads import operator_threads

_LONGER = (
    "Only owners may let a thread go earlier than the project does, since what was "
    "retired is erased for ever."
)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """How long this thread may idle, and when it is due."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    place.require(Membership.Role.EDITOR)
    if request.method != "POST":
        return _form(request, place, row)
    text = request.POST.get(policy.FIELD, "")
    try:
        days = policy.read(text)
        operator_threads.keep(row, actor=place.actor, idle_days=days, owner=place.owner)
    except Refusal as refusal:
        return _form(request, place, row, text=text, refusal=refusal)
    where = {"project": project, "thread": thread}
    return HttpResponseRedirect(reverse("retention", kwargs=where))


def _form(
    request: HttpRequest,
    place: Place,
    row: Thread,
    *,
    text: str | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    shared = panels.shared(Scene(thread=row))
    own = shared["thread"].config.get(policy.FIELD)
    context = {
        **shared,
        "own": own,
        "due_at": retention.get_due_at(row),
        "text": policy.text(own) if text is None else text,
        "most": MOST_IDLE_DAYS,
        "problem": _said(refusal, place),
    }
    return shell.page(
        request,
        "inspector/threads/retention.html",
        context,
        place=place,
        section="threads",
        status=refusals.status_of(refusal) if refusal else 200,
    )


def _said(refusal: Refusal | None, place: Place) -> str:
    if not isinstance(refusal, InvalidError):
        return refusal.message if refusal else ""
    return policy.SAID if place.owner else f"{policy.SAID} {_LONGER}"
