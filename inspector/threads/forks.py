from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.lists import visits
from inspector.web import asof, points, refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints
from memoryhub.queries.memory.comparisons import Point
from memoryhub.queries.threads import forks
from memoryhub.services.threads import operator_threads

_PROBLEMS: refusals.Texts = {
    "name": "A name has 1 to 128 letters, digits and . _ : @ - and begins with a "
    "letter or digit; names that begin with mh. are reserved.",
    "seq": "Enter an event's number, from 0 to the thread's newest.",
}


@require_safe
@require_signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show the family of a thread: its ancestors and its forks."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    context = {"tree": forks.get_tree(row)}
    return visits.render_thread_page(
        request, "inspector/threads/forks/index.html", visitor, row, context
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def fork_thread(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Fork the thread at an event, under a name of its own."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    if request.method != "POST":
        if checkpoint := request.GET.get("checkpoint", ""):
            return _redirect_to_origin(row, project, points.read(checkpoint))
        seq = asof.read(request, row).seq
        form = {"name": f"{_build_stem(row)}{seq}", "seq": seq, "problem": ""}
        # A checkpoint that another thread has inherited led here.
        if heir := request.GET.get("heir", ""):
            form["heir"] = access.require_thread(visitor, heir).name
        return _render_form(request, visitor, row, form)
    name, sent = request.POST.get("name", ""), request.POST.get("seq", "")
    try:
        seq = _parse_seq(sent)
        operator_threads.fork(row, actor=visitor.actor, name=name, seq=seq)
    except Refusal as refusal:
        problem = refusals.get_error_text(refusal, _PROBLEMS)
        form = {"name": name, "seq": sent, "problem": problem}
        status = refusals.get_status(refusal)
        return _render_form(request, visitor, row, form, status=status)
    made = reverse("thread", kwargs={"project": project, "thread": name})
    return HttpResponseRedirect(f"{made}?saved=1")


def _redirect_to_origin(row: Thread, project: str, point: Point) -> HttpResponse:
    """Redirect to the form of the checkpoint's own thread, an ancestor if inherited."""
    home, seq = checkpoints.find_origin(row, point)
    url = reverse("fork", kwargs={"project": project, "thread": home.name})
    query: dict[str, Any] = {"at_seq": seq}
    if home.id != row.id:
        query["heir"] = row.name
    return HttpResponseRedirect(f"{url}?{urlencode(query)}")


def _build_stem(row: Thread) -> str:
    """Build the offered name up to the event's number, which it follows."""
    return f"{row.name[:100]}.fork-"


def _render_form(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    form: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    context = {"form": form, "stem": _build_stem(row)}
    return visits.render_thread_page(
        request,
        "inspector/threads/forks/new.html",
        visitor,
        row,
        context,
        status=status,
    )


def _parse_seq(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError(loc="seq")
    return int(text)
