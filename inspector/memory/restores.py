from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.drawing import outcomes
from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels
from inspector.memory import editing
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import CheckpointUnknownError, InvalidError, Refusal
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.memory.nouns import RESTORABLE, RESTORED
from memoryhub.kernel.state.events import ThreadReopened
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints, restorations
from memoryhub.queries.memory.restorations import Restoration
from memoryhub.services.memory import operator_memory

#: Digits of a seq.
_LONGEST = 18


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def restore(
    request: HttpRequest, project: str, thread: str, number: int
) -> HttpResponse:
    """Show what restoring the chosen parts would change; a POST restores them.

    The operator confirms the checkpoint, so an agent that writes meanwhile does not
    block the restore. A closed thread is reopened in the same commit, if the form said
    so. The thread's page then leads to the event, whose page tells what differed from
    the preview.
    """
    visitor, row = editing.require_editor(request, project, thread, reopens=True)
    posted = request.method == "POST"
    parts = _parse_parts(request.POST if posted else request.GET)
    problem: Refusal | None = None
    if posted:
        try:
            return _restore_parts(request, visitor, row, number, parts)
        except CheckpointUnknownError:
            raise
        except Refusal as refusal:
            problem = refusal
        # The thread's head has moved by now.
        _, row = editing.require_editor(request, project, thread, reopens=True)
    found = None
    try:
        found = restorations.get_restoration(row, number, parts)
    except CheckpointUnknownError:
        raise
    except Refusal as refusal:
        problem = problem or refusal
    return _render_form(
        request, visitor, row, number, parts=parts, found=found, problem=problem
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def delete(
    request: HttpRequest, project: str, thread: str, number: int
) -> HttpResponse:
    """Delete a checkpoint and nothing else, once confirmed. Idempotent."""
    visitor, row = editing.require_editor(request, project, thread)
    if request.method == "POST":
        operator_memory.delete_checkpoint(row, number, actor=visitor.actor)
        kwargs = {"project": project, "thread": thread}
        return HttpResponseRedirect(reverse("checkpoints", kwargs=kwargs))
    line = checkpoints.get_checkpoint(row, number)
    context = {**panels.build_shared_context(ThreadScene(thread=row)), "line": line}
    return shell.render_page(
        request,
        "inspector/memory/checkpoints/delete.html",
        context,
        visitor=visitor,
        section="threads",
    )


def _restore_parts(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    number: int,
    parts: tuple[str, ...],
) -> HttpResponse:
    receipt = operator_memory.restore_checkpoint(
        row,
        number,
        parts,
        actor=visitor.actor,
        reopens=request.POST.get("reopens") == "1",
    )
    kwargs: dict[str, Any] = {"project": visitor.project.slug, "thread": row.name}
    restored = [e for e in receipt.events if isinstance(e.event, CheckpointRestored)]
    if not restored:
        return HttpResponseRedirect(reverse("checkpoints", kwargs=kwargs))
    seen = request.POST.get("seen", "")[:_LONGEST]
    query: dict[str, Any] = {"saved": restored[0].seq, "seen": seen}
    if isinstance(receipt.events[0].event, ThreadReopened):
        query["reopened"] = receipt.events[0].seq
    return HttpResponseRedirect(
        f"{reverse('thread', kwargs=kwargs)}?{urlencode(query)}"
    )


def _parse_parts(sent: QueryDict) -> tuple[str, ...]:
    """Parse the ticked parts; without any, the parts restored by default."""
    words = sent.getlist("part")
    if unknown := {*words} - {*RESTORABLE}:
        raise InvalidError(loc="part", count=len(unknown))
    chosen = tuple(part for part in RESTORABLE if part in words)
    return chosen or RESTORED


def _render_form(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    number: int,
    *,
    parts: tuple[str, ...],
    found: Restoration | None,
    problem: Refusal | None,
) -> HttpResponse:
    context: dict[str, Any] = {
        **panels.build_shared_context(ThreadScene(thread=row)),
        "number": number,
        "choices": [(part, part in parts) for part in RESTORABLE],
        "parts": parts,
        "found": found,
        "reopens": row.status == "closed",
        "problem": problem.sentence if problem else "",
        **(
            outcomes.build_preview_context(found.preview)
            if found and found.preview
            else {}
        ),
    }
    # A GET is no command: the page shows the refusal, with status 200.
    refused = problem is not None and request.method == "POST"
    return shell.render_page(
        request,
        "inspector/memory/checkpoints/restore.html",
        context,
        visitor=visitor,
        section="threads",
        status=refusals.get_status(problem) if problem and refused else 200,
    )
