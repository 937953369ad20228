from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.web import asof, points, refusals, shell
from inspector.web.places import Place
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints
from memoryhub.queries.memory.comparisons import Point
from memoryhub.queries.threads import forks
from memoryhub.services.threads import operator_threads


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The family of a thread: where it came from, what left it."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    context = {**panels.shared(Scene(thread=row)), "tree": forks.get_tree(row)}
    return shell.page(
        request,
        "inspector/threads/forks/index.html",
        context,
        place=place,
        section="threads",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Fork the thread at an event, under a name of its own."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    place.require(Membership.Role.EDITOR)
    if request.method != "POST":
        if checkpoint := request.GET.get("checkpoint", ""):
            return _at_checkpoint(row, project, points.read(checkpoint))
        seq = asof.read(request, row).seq
        form = {"name": f"{thread[:100]}.fork-{seq}", "seq": seq, "problem": ""}
        return _form(request, place, row, form)
    name, sent = request.POST.get("name", ""), request.POST.get("seq", "")
    try:
        seq = _seq(sent)
        operator_threads.fork(row, actor=place.actor, name=name, seq=seq)
    except Refusal as refusal:
        form = {"name": name, "seq": sent, "problem": _said(refusal)}
        status = refusals.status_of(refusal)
        return _form(request, place, row, form, status=status)
    made = reverse("thread", kwargs={"project": project, "thread": name})
    return HttpResponseRedirect(made)


def _at_checkpoint(row: Thread, project: str, point: Point) -> HttpResponse:
    """The form of the thread whose event it is: what is inherited is an ancestor's."""
    home, seq = checkpoints.origin_of(row, point)
    url = reverse("fork", kwargs={"project": project, "thread": home.name})
    return HttpResponseRedirect(f"{url}?at_seq={seq}")


def _form(
    request: HttpRequest,
    place: Place,
    row: Thread,
    form: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    context = {**panels.shared(Scene(thread=row)), "form": form}
    return shell.page(
        request,
        "inspector/threads/forks/new.html",
        context,
        place=place,
        section="threads",
        status=status,
    )


def _seq(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError(loc="seq")
    return int(text)


def _said(refusal: Refusal) -> str:
    return _SAID.get(getattr(refusal, "loc", ""), refusal.message)


_SAID = {
    "name": "A name has 1 to 128 letters, digits and . _ : @ - and begins with a "
    "letter or digit; names that begin with mh. are kept for MemoryHub.",
    "seq": "An event's number is wanted, from 0 to the thread's newest.",
}
