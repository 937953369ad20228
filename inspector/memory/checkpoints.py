"""Screens of checkpoints: a tree that folds automatic checkpoints away by default."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access.access import require_signed_in
from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels, screens, visits
from inspector.lists.screens import Context, ListRequest, Screen, ScreenExport
from inspector.lists.visits import Visit
from inspector.memory import editing
from inspector.web import points, refusals, shell
from inspector.web.records import Record
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.memory.checkpoint_events import COUNTED
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.memory import checkpoint_trees, checkpoints, comparison_views
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.comparisons import HEAD
from memoryhub.queries.threads import forks
from memoryhub.services.memory import operator_memory

_NAME_TEXTS: refusals.Texts = {
    InvalidError: "A name has 1 to 128 letters, digits and . _ : @ - and begins with a "
    "letter or digit; not only digits, and not head."
}


def _build_list(ask: ListRequest[Visit]) -> Context:
    visit, automatic = ask.where, ask.request.GET.get("auto") == "1"
    tree = checkpoint_trees.get_tree(
        visit.row, seq=visit.moment.at_seq, automatic=automatic
    )
    return {
        "tree": tree,
        "ancestors": forks.get_names(visit.row),
        "unfolded": automatic,
        "search": "auto=1" if automatic else "",
        "editing": visit.editable,
    }


def _list_batch(
    ask: ListRequest[Visit], after: str | None, limit: int
) -> ListBatch[CheckpointLine]:
    visit = ask.where
    return checkpoints.list_checkpoints(
        visit.row, seq=visit.moment.at_seq, after=after, limit=limit
    )


def _build_record(thread: str, line: CheckpointLine) -> Record:
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
    lines=_build_list,
    export=ScreenExport(
        fields=(
            *("thread", "seq", "name", "at", "by", "auto", "parent"),
            *COUNTED,
            *("touched", "description"),
        ),
        record=_build_record,
        batch=_list_batch,
    ),
)


#: Checkpoints that the comparison form offers.
OFFERED = 100


@require_safe
@require_signed_in
def compare(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show what differs between two checkpoints, or between a checkpoint and now."""
    visit = visits.find(request, project, thread)
    at_seq = visit.moment.at_seq
    offered = checkpoint_trees.list_newest(visit.row, seq=at_seq, limit=OFFERED)
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
    return visits.render_page(request, template, visit, context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def take(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Take a checkpoint of now, with or without a name."""
    visitor, row = editing.require_editor(request, project, thread)
    problem: Refusal | None = None
    if request.method == "POST":
        name = request.POST.get("name", "").strip() or None
        try:
            operator_memory.take_checkpoint(row, name=name, actor=visitor.actor)
            kwargs = {"project": project, "thread": thread}
            return HttpResponseRedirect(reverse("checkpoints", kwargs=kwargs))
        except Refusal as refusal:
            problem = refusal
    context: dict[str, Any] = {
        **panels.build_shared_context(ThreadScene(thread=row)),
        "name": request.POST.get("name", ""),
        "problem": refusals.get_error_text(problem, _NAME_TEXTS, numbers=True),
    }
    return shell.render_page(
        request,
        "inspector/memory/checkpoints/take.html",
        context,
        visitor=visitor,
        section="threads",
        status=refusals.get_status(problem) if problem else 200,
    )
