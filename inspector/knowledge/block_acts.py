"""Edits of blocks by an operator: a new block, or the next version of one."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.lists import person_visits
from inspector.memory import editing
from inspector.web import refusals
from memoryhub.errors import Refusal, StaleError, ValueTooLargeError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.knowledge.blocks import MAX_DESCRIPTION_BYTES, BlockDraft

_TEXTS: refusals.Texts = {
    StaleError: "Somebody changed this block after you opened it. Its current text is "
    "above your own.",
    ValueTooLargeError: f"A block has at most {MAX_BLOCK_BYTES // 1024} KiB of text.",
    "block": "A name has 1 to 128 letters, digits and . _ : @ - and begins with a "
    "letter or digit, also after each slash; names that begin with mh., slot-, obs- or "
    "ref- are reserved for MemoryHub.",
    "description": f"A description has at most {MAX_DESCRIPTION_BYTES:,} bytes.",
}
_NAME_TAKEN = "There is a block of this name already."


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def add(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Write a new block."""
    return _edit_block(request, project, subject, None)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def edit(request: HttpRequest, project: str, subject: UUID, block: str) -> HttpResponse:
    """Write the next version of a block, if the block is as the form showed it."""
    return _edit_block(request, project, subject, block)


def _edit_block(
    request: HttpRequest, project: str, subject: UUID, block: str | None
) -> HttpResponse:
    visit = person_visits.require_editor(request, project, subject)
    row = visit.subject
    sent: Mapping[str, str] | None = None
    problem: Refusal | None = None
    if request.method == "POST":
        sent = {name: request.POST.get(name, "") for name in ("text", "description")}
        sent["block"] = block or request.POST.get("block", "").strip()
        try:
            version = editing.parse_version(request.POST) or 0
            receipt = writing.put_for_operator(
                row,
                _build_draft(sent),
                version=version,
                actor=visit.visitor.actor,
            )
        except Refusal as refusal:
            problem = refusal
        else:
            return redirect_to_saved(visit.names, receipt, sent["block"])
    view = None if block is None else blocks.get_block(find_home(row), block)
    return person_visits.render_page(
        request,
        "inspector/knowledge/blocks/act.html",
        visit,
        _build_form(view, sent, problem),
        status=refusals.get_status(problem),
    )


def redirect_to_saved(
    names: dict[str, str], receipt: OrderReceipt, block: str
) -> HttpResponse:
    """Redirect to the saved block, whose page offers to undo the edit."""
    saved = {"saved": receipt.events[-1].seq} if receipt.events else {}
    query, anchor = {"block": block, **saved}, f"#block-{block}"
    return person_visits.redirect_to_page("blocks", names, query, anchor=anchor)


def _build_draft(sent: Mapping[str, str]) -> BlockDraft:
    # Browsers send CRLF line ends.
    plain = {name: text.replace("\r\n", "\n") for name, text in sent.items()}
    return BlockDraft(
        block=plain["block"], text=plain["text"], description=plain["description"]
    )


def _build_form(
    view: BlockView | None, sent: Mapping[str, str] | None, problem: Refusal | None
) -> dict[str, object]:
    there = (
        {"block": "", "text": "", "description": ""}
        if view is None
        else {
            "block": view.block,
            "text": view.text or "",
            "description": view.description,
        }
    )
    stale = isinstance(problem, StaleError)
    own_words = refusals.get_error_text(problem, _TEXTS, numbers=True)
    return {
        "view": view,
        "version": view.version if view else editing.NONE,
        "sent": there if sent is None else sent,
        # The present text, if somebody else wrote the block meanwhile.
        "other": there if view and stale else None,
        "problem": _NAME_TAKEN if stale and view is None else own_words,
    }
