"""Screen of a project's threads: searched, in an order of choice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast, get_args
from urllib.parse import parse_qsl, urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_safe,
)

from inspector.access import access
from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.drawing import policy, thread_table
from inspector.drawing.thread_table import ColumnHeading, TableColumn
from inspector.lists import screens
from inspector.lists.screens import (
    Context,
    LineCount,
    ListRequest,
    Screen,
    ScreenExport,
)
from inspector.web import asof, records, refusals, search, shell
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from memoryhub.errors import Refusal
from memoryhub.kernel.state.events import CloseReason
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.lists.terms import NumberSpan, SearchTerm, WordValue
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.threads import catalogue, facets, verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.services.threads import operator_threads

#: Default order.
_SORT = "active"
#: Path of a list behind its thread, or of the form that restores a checkpoint.
_VIEW = re.compile(r"[a-z]{1,20}|checkpoints/-?[0-9]{1,18}/restore")
#: Time ranges since the last activity that the page links to, in hours.
RANGES = {"15m": 0.25, "1h": 1, "24h": 24, "7d": 168, "30d": 720}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSearch(search.ParsedSearch):
    """Search, order and columns of the list of threads, as the URL gives them."""

    #: Days of an unsaved retention policy to preview; None uses the saved policy.
    assumed: str | None = None

    @property
    def sort(self) -> str:
        return self.options.get("sort") or _SORT

    @property
    def is_rising(self) -> bool:
        """Whether the order is ascending."""
        order = self.options.get("order")
        return order == "asc" if order else self.sort in catalogue.RISING

    @property
    def columns(self) -> tuple[str, ...]:
        chosen = self.options.get("columns")
        if chosen:
            columns = tuple(chosen.split(","))
            return (
                (*columns, thread_table.SINCE.name) if self.has_flag_term else columns
            )
        return (
            thread_table.PROBLEM_COLUMNS
            if self.has_flag_term
            else thread_table.DEFAULT_COLUMNS
        )

    @property
    def has_flag_term(self) -> bool:
        """Whether the search asks for threads with a health flag."""
        return any(
            term.key == "flag" and not term.negated and value.text in verdicts.WORDS
            for term in self.terms
            for value in term.values
            if isinstance(value, WordValue)
        )

    def query(self, **more: str | int | None) -> str:
        """Build this list's query string, with changes."""
        # Named in full: a slotted dataclass is another class than super() looks for.
        query = search.ParsedSearch.query(self, **more)
        return "&".join(part for part in (query, self.kept) if part)

    @property
    def kept(self) -> str:
        """Query of the assumed policy, which links to this list keep."""
        return "" if self.assumed is None else urlencode({policy.FIELD: self.assumed})


def enter(request: HttpRequest, project: str) -> Visitor:
    """Return the visitor, whose project has the policy that the URL assumes."""
    visitor = access.require_visitor(request, project)
    return replace(
        visitor, project=policy.build_assumed_project(request, visitor.project)
    )


def read_search(request: HttpRequest) -> ThreadSearch:
    """Read the search, time range, order, columns and assumed policy."""
    found = search.parse_search(request.GET.get("q", ""), search.THREADS)
    sort, order = request.GET.get("sort", ""), request.GET.get("order", "")
    since = request.GET.get("range", "")
    chosen = {*",".join(request.GET.getlist("columns")).split(",")}
    columns = [name for name in thread_table.NAMES if name in chosen]
    return ThreadSearch(
        text=found.text,
        terms=(*found.terms, *_build_range_terms(since)),
        error=found.error,
        options={
            "range": since if since in RANGES else "",
            "sort": sort if sort in catalogue.SORTS and sort != _SORT else "",
            "order": order if order in ("asc", "desc") else "",
            "columns": ",".join(columns),
        },
        assumed=request.GET.get(policy.FIELD),
    )


def _build_range_terms(since: str) -> tuple[SearchTerm, ...]:
    """Build the search terms of a time range."""
    if since not in RANGES:
        return ()
    return (SearchTerm(key="at", values=(NumberSpan(high=RANGES[since] * 3_600),)),)


def _build_surroundings(ask: ListRequest[Visitor]) -> Context:
    parsed = cast("ThreadSearch", ask.parsed)
    return {
        "query": parsed.text,
        "ranges": [(word, ask.query(range=word)) for word in RANGES],
        "ever": ask.query(range=None),
        "since": ask.now.isoformat(),
        "kept": parse_qsl(ask.query(columns=None)),
        "choices": [
            (column, column.name in parsed.columns)
            for column in thread_table.COLUMNS
            if column is not thread_table.SINCE
        ],
    }


def _build_list(ask: ListRequest[Visitor]) -> Context:
    """Build a batch as a table. Three queries, one more if there are more threads.

    One more query finds since when each thread is unhealthy.
    """
    parsed = cast("ThreadSearch", ask.parsed)
    found = _list_batch(ask, ask.after, ask.limit)
    table = thread_table.build_table(
        found.items,
        columns=parsed.columns,
        headings=_build_headings(ask),
        # Onsets for any search, since the pushed row shows them, too.
        onsets=unhealthy.get_onsets(ask.where.project.id),
        limits=Thresholds.from_project(ask.where.project),
    )
    ask.where.note_threads(table.read)
    return {
        **screens.build_list_context(ask, found),
        "table": table,
        "count": _count_matches(ask, found),
    }


def _count_matches(
    ask: ListRequest[Visitor], found: ListBatch[ThreadLine]
) -> LineCount:
    """Count the matching threads; without a query if the page shows all."""
    shown = len(found.items)
    if found.next is None and ask.after is None:
        return LineCount(shown=shown, total=shown)
    total = catalogue.count_threads(
        ask.where.project,
        terms=ask.parsed.terms,
        now=ask.now,
        restricted=ask.where.officer,
    )
    return LineCount(shown=shown, total=total, more=total >= catalogue.COUNTED)


def _build_headings(ask: ListRequest[Visitor]) -> dict[str, ColumnHeading]:
    """Link each heading to the list in its order; the present one to the reverse."""
    parsed = cast("ThreadSearch", ask.parsed)
    return {
        column.name: _build_heading(ask, parsed, column)
        for column in (thread_table.THREAD, *thread_table.COLUMNS)
        if column.sort
    }


def _build_heading(
    ask: ListRequest[Visitor], parsed: ThreadSearch, column: TableColumn
) -> ColumnHeading:
    sort = None if column.sort == _SORT else column.sort
    if parsed.sort != column.sort:
        return ColumnHeading(
            column=column, query=ask.query(sort=sort, order=None) or "q="
        )
    turned = parsed.is_rising == (column.sort in catalogue.RISING)
    order = ("desc" if parsed.is_rising else "asc") if turned else None
    return ColumnHeading(
        column=column,
        query=ask.query(sort=sort, order=order) or "q=",
        order="ascending" if parsed.is_rising else "descending",
    )


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[ThreadLine]:
    parsed = cast("ThreadSearch", ask.parsed)
    return catalogue.list_threads(
        ask.where.project,
        terms=parsed.terms,
        now=ask.now,
        sort=parsed.sort,
        rising=parsed.is_rising,
        after=after,
        limit=limit,
        restricted=ask.where.officer,
    )


def _iter_all(ask: ListRequest[Visitor]) -> Iterable[Sequence[ThreadLine]]:
    """Iterate all matching threads oldest first, unlike the page."""
    visitor = ask.where
    return catalogue.iter_threads(
        visitor.project, terms=ask.parsed.terms, now=ask.now, restricted=visitor.officer
    )


SCREEN = Screen(
    folder="threads",
    scope=screens.build_project_scope("threads", enter=enter, live=True),
    read=read_search,
    lines=_build_list,
    around=_build_surroundings,
    export=ScreenExport(
        fields=records.THREAD,
        record=lambda _, line: records.build_thread_record(line),
        batch=_list_batch,
        lines=_iter_all,
        size=None,
    ),
)


REASONS: tuple[CloseReason, ...] = get_args(CloseReason)


@require_safe
@require_signed_in_panel
def show_panel(request: HttpRequest, project: str, panel: str) -> HttpResponse:
    """Show a panel beside the list that loads separately: facets or fresh threads."""
    visitor = enter(request, project)
    parsed, now = read_search(request), clock.now()
    if parsed.error:
        raise parsed.error
    shown = {"facets": _build_facets, "fresh": _count_fresh}.get(panel)
    if shown is None:
        raise Http404
    context = {"parsed": parsed, "visitor": visitor, "query": parsed.text}
    context |= shown(request, visitor, parsed, now)
    answer = render(request, f"inspector/threads/_{panel}.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def close(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    reason = next((r for r in REASONS if r == request.POST.get("reason")), None)
    if request.method != "POST" or reason is None:
        context = {"row": row, "reasons": REASONS, "problem": None}
        status = 422 if request.method == "POST" else 200
        return _render_close(request, visitor, context, status=status)
    try:
        operator_threads.close(row, actor=visitor.actor, reason=reason)
    except Refusal as refusal:
        context = {"row": row, "reasons": REASONS, "problem": refusal}
        status = refusals.get_status(refusal)
        return _render_close(request, visitor, context, status=status)
    return HttpResponseRedirect(_build_thread_url(project, thread))


@require_post
@require_signed_in
def reopen(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Reopen a thread, and go to the page of the thread that the form names."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    operator_threads.reopen(row, actor=visitor.actor)
    where, view = _build_thread_url(project, thread), request.POST.get("view", "")
    return HttpResponseRedirect(f"{where}/{view}" if _VIEW.fullmatch(view) else where)


def _render_close(
    request: HttpRequest, visitor: Visitor, context: dict[str, Any], *, status: int
) -> HttpResponse:
    return shell.render_page(
        request,
        "inspector/threads/close.html",
        context,
        visitor=visitor,
        section="threads",
        status=status,
    )


def _build_thread_url(project: str, thread: str) -> str:
    return reverse("thread", kwargs={"project": project, "thread": thread})


def _build_facets(
    request: HttpRequest, visitor: Visitor, parsed: ThreadSearch, now: datetime
) -> dict[str, Any]:
    found = facets.get_facets(
        visitor.project, terms=parsed.terms, now=now, restricted=visitor.officer
    )
    return {"spread": found}


def _count_fresh(
    request: HttpRequest, visitor: Visitor, parsed: ThreadSearch, now: datetime
) -> dict[str, Any]:
    since = asof.read_since(request)
    count = catalogue.count_fresh(
        visitor.project,
        terms=parsed.terms,
        now=now,
        since=since,
        restricted=visitor.officer,
    )
    return {"fresh": count, "most": catalogue.FRESH, "since": since.isoformat()}
