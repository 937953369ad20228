"""Screen of the audit log: who did what to whose memory, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.drawing import chat
from inspector.forget import privacy_pages
from inspector.lists import screens
from inspector.lists.screens import Context, ListRequest, Screen, ScreenExport
from inspector.web import search, shell
from inspector.web.search import ParsedSearch
from inspector.web.visitors import Visitor
from memoryhub.queries.access import audit
from memoryhub.queries.access.audit import AuditLine
from memoryhub.queries.lists.cursors import ListBatch

#: Which entries the page lists; deeds without a choice, all for a search.
KINDS = ("deeds", "looks", "all")

_read_search = screens.build_search_reader(search.AUDIT, bare="action")


def _read_request(request: HttpRequest) -> ParsedSearch:
    """Read the search and the choice of entries. Raises InvalidError."""
    chosen = screens.read_choice("show", KINDS, request)
    return replace(_read_search(request), options=chosen.options)


def _get_kind(ask: ListRequest[Visitor]) -> str:
    chosen: str = ask.parsed.options["show"]
    return chosen or ("all" if ask.parsed.text else "deeds")


def _build_rows(ask: ListRequest[Visitor]) -> Context:
    """Build the rows of the page: entries, or views folded to a row each."""
    kind = _get_kind(ask)
    if kind != "looks":
        found = _list_batch(ask, ask.after, ask.limit, deeds=kind == "deeds")
        found = replace(found, items=audit.add_edited(found.items))
        return screens.build_list_context(ask, found)
    views = audit.list_views(
        ask.where.project.id,
        terms=ask.parsed.terms,
        now=ask.now,
        after=ask.after,
        limit=ask.limit,
    )
    return screens.build_list_context(ask, views)


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int, *, deeds: bool = False
) -> ListBatch[AuditLine]:
    return audit.list_entries(
        ask.where.project.id,
        terms=ask.parsed.terms,
        now=ask.now,
        after=after,
        limit=limit,
        deeds=deeds,
    )


def _iter_all(ask: ListRequest[Visitor]) -> Iterable[Sequence[AuditLine]]:
    """Iterate all entries oldest first, unlike the page."""
    return audit.iter_entries(ask.where.project.id, terms=ask.parsed.terms, now=ask.now)


def _build_surroundings(ask: ListRequest[Visitor]) -> Context:
    kinds = [
        (word.capitalize(), ask.parsed.query(show=word), word == _get_kind(ask))
        for word in KINDS
    ]
    return {"verdict": audit.verify_newest(), "kind": _get_kind(ask), "kinds": kinds}


SCREEN = Screen(
    folder="forget/audit",
    scope=screens.build_project_scope("audit", enter=privacy_pages.require_officer),
    read=_read_request,
    lines=_build_rows,
    examples=("actor:operator", "erasure.*", "at:<1d"),
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
    (line,) = audit.add_edited([line])
    raw = chat.PageRoom().build_json_block(chat.render_json(audit.build_record(line)))
    context = {"line": line, "raw": raw}
    template = "inspector/forget/audit/show.html"
    return shell.render_page(
        request, template, context, visitor=visitor, section="audit"
    )
