"""Undo: takes an edit back while it stands, else shows what is there instead."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from inspector.access.access import signed_in
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
from memoryhub.journal import Receipt
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks as reading
from memoryhub.queries.threads import edits
from memoryhub.queries.threads.edits import Edit
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.memory import undos

_TEXTS: refusals.Texts = {
    StaleError: "It was written again since, so nothing was undone. Here it is as it "
    "is now.",
    ContentErasedError: "What was there before is gone for good, so nothing was "
    "undone.",
    InvalidError: "What was there before would have expired by now, so nothing was "
    "undone.",
}


@require_post
@signed_in
def undo(request: HttpRequest, project: str, thread: str, seq: int) -> HttpResponse:
    """Take back what an event wrote to a key, to the task or to a block."""
    visitor, row = editing.find(request, project, thread)
    edit = edits.find_edit(row, seq) or reading.find_edit(row, seq)
    if edit is None:
        raise InvalidError(loc="seq")
    try:
        receipt = _undone(row, edit, actor=visitor.actor)
    except Refusal as refusal:
        return _refused(request, project, thread, edit=edit, refusal=refusal)
    if edit.block is not None:
        return block_acts.show_saved(project, receipt, edit.block)
    if edit.key is None:
        return editing.show_saved("task", receipt, project=project, thread=thread)
    names = {"project": project, "thread": thread, "key": edit.key}
    return editing.show_saved("key", receipt, **names)


def _undone(row: Thread, edit: Edit, *, actor: str) -> Receipt:
    if edit.block is None:
        return undos.undo(row, edit.seq, actor=actor)
    return writing.undo_by_hand(row, edit.block, seq=edit.seq, actor=actor)


def _refused(
    request: HttpRequest, project: str, thread: str, *, edit: Edit, refusal: Refusal
) -> HttpResponse:
    # By now the head is another one.
    visit = visits.find(request, project, thread)
    problem = refusals.error_text(refusal, _TEXTS, numbers=True)
    status = refusals.status_of(refusal)
    if edit.key is not None:
        return keys.page(request, visit, edit.key, problem=problem, status=status)
    screen = task.SCREEN if edit.block is None else blocks.SCREEN
    ask = screen.ask(request, visit)
    return screen.page(ask, problem=problem, status=status)
