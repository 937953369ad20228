"""Checkpoints: their tree; automatic ones are folded away unless asked for."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access.access import signed_in
from inspector.drawing.scenes import Scene
from inspector.lists import panels, screens, visits
from inspector.lists.screens import Context, Export, ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.memory import editing
from inspector.web import points, refusals, shell
from inspector.web.records import Record
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.memory.checkpoint_events import COUNTED
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.memory import checkpoint_trees, checkpoints, comparison_views
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.comparisons import HEAD
from memoryhub.services.memory import operator_memory

_NAME_TEXTS: refusals.Texts = {
    InvalidError: "A name has 1 to 128 letters, digits and . _ : @ - and begins with a "
    "letter or digit; not only digits, and not head."
}


def _lines(ask: ListRequest[Visit]) -> Context:
    visit, automatic = ask.where, ask.request.GET.get("auto") == "1"
    tree = checkpoint_trees.get_tree(
        visit.row, seq=visit.moment.at_seq, automatic=automatic
    )
    return {
        "tree": tree,
        "unfolded": automatic,
        "search": "auto=1" if automatic else "",
        "editing": visit.editable,
    }


def _batch(
    ask: ListRequest[Visit], after: str | None, limit: int
) -> Batch[CheckpointLine]:
    visit = ask.where
    return checkpoints.list_checkpoints(
        visit.row, seq=visit.moment.at_seq, after=after, limit=limit
    )


def _record(thread: str, line: CheckpointLine) -> Record:
    return {
        "thread": thread,
        "seq": line.seq,
        "name": line.name,
        "at": line.at.isoformat(),
        "by": line.by,
        "auto": line.auto,
        "parent": line.parent,
        **line.counts,
        "touched": line.touched,
        "description": line.description,
    }


SCREEN = Screen(
    folder="memory/checkpoints",
    tab="branches",
    scope=screens.THREAD,
    lines=_lines,
    export=Export(
        fields=(
            *("thread", "seq", "name", "at", "by", "auto", "parent"),
            *COUNTED,
            *("touched", "description"),
        ),
        record=_record,
        batch=_batch,
    ),
)


#: Checkpoints that a form of two points offers.
OFFERED = 100


@require_safe
@signed_in
def compare(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Two checkpoints, or one and now: what differs from the first to the second."""
    visit = visits.find(request, project, thread)
    at_seq = visit.moment.at_seq
    offered = checkpoint_trees.newest(visit.row, seq=at_seq, limit=OFFERED)
    a, b = request.GET.get("a", ""), request.GET.get("b", "") or HEAD
    if not a and offered:
        a = str(offered[-1].seq)
    values = request.GET.get("values") == "1"
    found = None
    if a:
        found = comparison_views.get_comparison(
            visit.row,
            points.read(a),
            points.read(b),
            values=values,
            seq=at_seq,
            after=request.GET.get("after") or None,
        )
    query = urlencode({"a": a, "b": b})
    context: dict[str, Any] = {
        "found": found,
        "a": a,
        "b": b,
        "asked": query,
        "search": query,
        "values": values,
        "offered": offered,
    }
    template = "inspector/memory/comparisons/show.html"
    return visits.page(request, template, visit, context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def take(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Keep what is now, under a name or none."""
    visitor, row = editing.find(request, project, thread)
    problem: Refusal | None = None
    if request.method == "POST":
        name = request.POST.get("name", "").strip() or None
        try:
            operator_memory.take(row, name=name, actor=visitor.actor)
            kwargs = {"project": project, "thread": thread}
            return HttpResponseRedirect(reverse("checkpoints", kwargs=kwargs))
        except Refusal as refusal:
            problem = refusal
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row)),
        "name": request.POST.get("name", ""),
        "problem": refusals.error_text(problem, _NAME_TEXTS, numbers=True),
    }
    return shell.page(
        request,
        "inspector/memory/checkpoints/take.html",
        context,
        visitor=visitor,
        section="threads",
        status=refusals.status_of(problem) if problem else 200,
    )
