"""Screen of the audit log: who did what to whose memory, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.drawing import chat
from inspector.forget import privacy_pages
from inspector.lists import screens
from inspector.lists.screens import Context, ListRequest, Screen, ScreenExport
from inspector.web import search, shell
from inspector.web.visitors import Visitor
from memoryhub.queries.access import audit
from memoryhub.queries.access.audit import AuditLine
from memoryhub.queries.lists.cursors import ListBatch


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[AuditLine]:
    return audit.list_entries(
        ask.where.project.id,
        terms=ask.parsed.terms,
        now=ask.now,
        after=after,
        limit=limit,
    )


def _iter_all(ask: ListRequest[Visitor]) -> Iterable[Sequence[AuditLine]]:
    """Iterate all entries oldest first, unlike the page."""
    return audit.iter_entries(ask.where.project.id, terms=ask.parsed.terms, now=ask.now)


def _build_surroundings(_: ListRequest[Visitor]) -> Context:
    return {"verdict": audit.verify_newest()}


SCREEN = Screen(
    folder="forget/audit",
    scope=screens.build_project_scope("audit", enter=privacy_pages.require_officer),
    read=screens.build_search_reader(search.AUDIT, bare="action"),
    examples=("content.read", "actor:operator", "erasure.*", "at:<1d"),
    around=_build_surroundings,
    export=ScreenExport(
        fields=audit.FIELDS,
        record=lambda _, line: audit.build_record(line),
        batch=_list_batch,
        lines=_iter_all,
    ),
)


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, seq: int) -> HttpResponse:
    """Show one entry, and its place in the chain."""
    visitor = privacy_pages.require_officer(request, project)
    line = audit.get_entry(visitor.project.id, seq)
    if line is None:
        raise Http404
    raw = chat.PageRoom().build_json_block(chat.render_json(audit.build_record(line)))
    context = {"line": line, "raw": raw}
    template = "inspector/forget/audit/show.html"
    return shell.render_page(
        request, template, context, visitor=visitor, section="audit"
    )
