"""Undo of an edit while that edit is the newest; else a look at the present value."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from inspector.access.access import require_signed_in
from inspector.knowledge import block_acts, blocks
from inspector.lists import person_visits, visits
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
        return _render_refused(request, project, row, edit=edit, refusal=refusal)
    person = {"project": project, "subject": str(row.subject_id)}
    if edit.fact:
        query = {"done": receipt.events[-1].seq} if receipt.events else {}
        # The page names the lines of blocks that were not brought back.
        query["left"] = edit.seq
        return person_visits.redirect_to_page("facts", person, query)
    if edit.block is not None:
        return block_acts.redirect_to_saved(person, receipt, edit.name)
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
    request: HttpRequest, project: str, row: Thread, *, edit: Edit, refusal: Refusal
) -> HttpResponse:
    problem = refusals.get_error_text(refusal, _TEXTS, numbers=True)
    status = refusals.get_status(refusal)
    if edit.fact:
        if not isinstance(refusal, StaleError):
            return refusals.render_refusal(request, refusal)
        names = {"project": project, "subject": str(row.subject_id)}
        return person_visits.redirect_to_page("facts", names, {"saved": edit.seq})
    # The thread's head has moved by now.
    if edit.block is not None:
        person = person_visits.find(request, project, row.subject_id)
        found = blocks.SCREEN.read_request(request, person)
        return blocks.SCREEN.render_page(found, problem=problem, status=status)
    visit = visits.find(request, project, row.name)
    if edit.key is not None:
        return keys.render_page(
            request, visit, edit.key, problem=problem, status=status
        )
    ask = task.SCREEN.read_request(request, visit)
    return task.SCREEN.render_page(ask, problem=problem, status=status)
