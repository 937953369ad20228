"""Undo of an edit while that edit is the newest; else a look at the present value."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from inspector.access.access import require_signed_in
from inspector.knowledge import block_acts, blocks
from inspector.lists import visits
from inspector.memory import editing, keys, task
from inspector.web import refusals
from inspector.web.methods import require_post
from memoryhub.errors import (
    ContentErasedError,
    InvalidError,
    Refusal,
    StaleError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks as reading
from memoryhub.queries.knowledge import facts
from memoryhub.queries.threads import edits
from memoryhub.queries.threads.edits import Edit
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.knowledge import corrections, homes
from memoryhub.services.memory import undos

_TEXTS: refusals.Texts = {
    StaleError: "Something newer was written since, so nothing was undone. "
    "This is the current state.",
    ContentErasedError: "What was there before is gone for good, so nothing was "
    "undone.",
    InvalidError: "What was there before would have expired by now, so nothing was "
    "undone.",
}


@require_post
@require_signed_in
def undo(request: HttpRequest, project: str, thread: str, seq: int) -> HttpResponse:
    """Undo what an event wrote to a key, to the task, to a block or to a fact."""
    visitor, row = editing.require_editor(request, project, thread)
    edit = (
        edits.find_edit(row, seq)
        or reading.find_edit(row, seq)
        or facts.find_edit(row, seq)
    )
    if edit is None:
        raise InvalidError(loc="seq")
    try:
        receipt = _undo_edit(row, edit, actor=visitor.actor)
    except Refusal as refusal:
        return _render_refused(request, project, thread, edit=edit, refusal=refusal)
    if edit.fact:
        return _redirect_to_facts(project, thread)
    if edit.block is not None:
        return block_acts.redirect_to_saved(project, receipt, edit.name)
    if edit.key is None:
        return editing.redirect_to_saved(
            "task", receipt, project=project, thread=thread
        )
    names = {"project": project, "thread": thread, "key": edit.key}
    return editing.redirect_to_saved("key", receipt, **names)


def _undo_edit(row: Thread, edit: Edit, *, actor: str) -> OrderReceipt:
    if edit.fact:
        command = corrections.build_undo(row, edit.seq, now=clock.now())
        epoch = row.subject.epoch
        return homes.perform(row.subject, command, actor=actor, epoch=epoch)
    if edit.block is None:
        return undos.undo_edit(row, edit.seq, actor=actor)
    return writing.undo_for_operator(row, edit.block, seq=edit.seq, actor=actor)


def _render_refused(
    request: HttpRequest, project: str, thread: str, *, edit: Edit, refusal: Refusal
) -> HttpResponse:
    # The thread's head has moved by now.
    visit = visits.find(request, project, thread)
    problem = refusals.get_error_text(refusal, _TEXTS, numbers=True)
    status = refusals.get_status(refusal)
    if edit.key is not None:
        return keys.render_page(
            request, visit, edit.key, problem=problem, status=status
        )
    if edit.fact and isinstance(refusal, StaleError):
        return _redirect_to_facts(project, thread, saved=edit.seq)
    if edit.fact:
        return refusals.render_refusal(request, refusal)
    screen = task.SCREEN if edit.block is None else blocks.SCREEN
    ask = screen.read_request(request, visit)
    return screen.render_page(ask, problem=problem, status=status)


def _redirect_to_facts(project: str, thread: str, **query: int) -> HttpResponse:
    where = reverse("facts", kwargs={"project": project, "thread": thread})
    return HttpResponseRedirect(f"{where}?{urlencode(query)}" if query else where)
