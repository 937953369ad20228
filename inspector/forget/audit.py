"""The audit log: who did what to whose memory, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.drawing import chat
from inspector.forget import privacy_pages
from inspector.lists import screens
from inspector.lists.screens import Context, Export, ListRequest, Screen
from inspector.web import search, shell
from inspector.web.visitors import Visitor
from memoryhub.queries.access import audit
from memoryhub.queries.access.audit import Line
from memoryhub.queries.lists.cursors import Batch


def _batch(ask: ListRequest[Visitor], after: str | None, limit: int) -> Batch[Line]:
    return audit.list_entries(
        ask.where.project.id,
        terms=ask.parsed.terms,
        now=ask.now,
        after=after,
        limit=limit,
    )


def _all(ask: ListRequest[Visitor]) -> Iterable[Sequence[Line]]:
    """List oldest first, other than on the page."""
    return audit.iter_entries(ask.where.project.id, terms=ask.parsed.terms, now=ask.now)


def _around(_: ListRequest[Visitor]) -> Context:
    return {"verdict": audit.verify_newest()}


SCREEN = Screen(
    folder="forget/audit",
    scope=screens.project_scope("audit", enter=privacy_pages.enter),
    read=screens.searched(search.AUDIT, bare="action"),
    examples=("content.read", "actor:operator", "erasure.*", "at:<1d"),
    around=_around,
    export=Export(
        fields=audit.FIELDS,
        record=lambda _, line: audit.record(line),
        batch=_batch,
        lines=_all,
    ),
)


@require_safe
@signed_in
def show(request: HttpRequest, project: str, seq: int) -> HttpResponse:
    """Show one entry, and where it stands in the chain."""
    visitor = privacy_pages.enter(request, project)
    line = audit.get_entry(visitor.project.id, seq)
    if line is None:
        raise Http404
    raw = chat.Room().raw(chat.pretty(audit.record(line)))
    context = {"line": line, "raw": raw}
    template = "inspector/forget/audit/show.html"
    return shell.page(request, template, context, visitor=visitor, section="audit")
