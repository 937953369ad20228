"""Threads: all of a project, searched, in an order of choice."""

from __future__ import annotations

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
from inspector.access.access import signed_in, signed_in_panel
from inspector.drawing import policy, thread_table
from inspector.drawing.thread_table import Column, Heading
from inspector.lists import screens
from inspector.lists.screens import Context, Count, Export, ListRequest, Screen
from inspector.web import asof, records, refusals, search, shell
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from memoryhub.errors import Refusal
from memoryhub.kernel.state.events import CloseReason
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.lists.terms import SearchTerm, Span, Word
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.threads import catalogue, facets, verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.services.threads import operator_threads

#: The order unless another one is chosen.
_SORT = "active"
#: Times since the last activity that are a click away, in hours.
RANGES = {"15m": 0.25, "1h": 1, "24h": 24, "7d": 168, "30d": 720}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSearch(search.ParsedSearch):
    """Hold what the URL wants of the list of threads."""

    #: The days of a retention policy that is not saved; None goes by the saved one.
    assumed: str | None = None

    @property
    def sort(self) -> str:
        return self.options.get("sort") or _SORT

    @property
    def rising(self) -> bool:
        """Tell whether the least stand first."""
        order = self.options.get("order")
        return order == "asc" if order else self.sort in catalogue.RISING

    @property
    def columns(self) -> tuple[str, ...]:
        chosen = self.options.get("columns")
        if chosen:
            columns = tuple(chosen.split(","))
            return (*columns, thread_table.SINCE.name) if self.flagged else columns
        return thread_table.FLAGGED if self.flagged else thread_table.USUAL

    @property
    def flagged(self) -> bool:
        """Tell whether it looks for threads of which something is wrong."""
        return any(
            term.key == "flag" and not term.negated and value.text in verdicts.WORDS
            for term in self.terms
            for value in term.values
            if isinstance(value, Word)
        )

    def query(self, **more: str | int | None) -> str:
        """Word this list's query, with changes, as it stands behind the `?`."""
        # Named in full: a slotted dataclass is another class than super() looks for.
        query = search.ParsedSearch.query(self, **more)
        return "&".join(part for part in (query, self.kept) if part)

    @property
    def kept(self) -> str:
        """Word what else links to this list take along."""
        return "" if self.assumed is None else urlencode({policy.FIELD: self.assumed})


def enter(request: HttpRequest, project: str) -> Visitor:
    """Find the visitor, under the policy that the URL assumes."""
    visitor = access.find_visitor(request, project)
    return replace(visitor, project=policy.assumed(request, visitor.project))


def read(request: HttpRequest) -> ThreadSearch:
    """Read the search, time range, order, columns and the policy that is assumed."""
    found = search.parse_search(request.GET.get("q", ""), search.THREADS)
    sort, order = request.GET.get("sort", ""), request.GET.get("order", "")
    since = request.GET.get("range", "")
    chosen = {*",".join(request.GET.getlist("columns")).split(",")}
    columns = [name for name in thread_table.NAMES if name in chosen]
    return ThreadSearch(
        text=found.text,
        terms=(*found.terms, *_ranged(since)),
        error=found.error,
        options={
            "range": since if since in RANGES else "",
            "sort": sort if sort in catalogue.SORTS and sort != _SORT else "",
            "order": order if order in ("asc", "desc") else "",
            "columns": ",".join(columns),
        },
        assumed=request.GET.get(policy.FIELD),
    )


def _ranged(since: str) -> tuple[SearchTerm, ...]:
    """Word a time range as a search does."""
    if since not in RANGES:
        return ()
    return (SearchTerm(key="at", values=(Span(high=RANGES[since] * 3_600),)),)


def _around(ask: ListRequest[Visitor]) -> Context:
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


def _lines(ask: ListRequest[Visitor]) -> Context:
    """List a batch as a table. Three queries, one more where there is more.

    Another one for since when what is searched for is wrong.
    """
    parsed = cast("ThreadSearch", ask.parsed)
    found = _batch(ask, ask.after, ask.limit)
    table = thread_table.make(
        found.items,
        columns=parsed.columns,
        headings=_headings(ask),
        # Whatever is searched for, as the row that is pushed does.
        onsets=unhealthy.get_onsets(ask.where.project.id),
    )
    ask.where.note(table.read)
    return {
        **screens.list_context(ask, found),
        "table": table,
        "count": _count(ask, found),
    }


def _count(ask: ListRequest[Visitor], found: Batch[ThreadLine]) -> Count:
    """Count what matches; without a query if all of it is shown."""
    shown = len(found.items)
    if found.next is None and ask.after is None:
        return Count(shown=shown, total=shown)
    total = catalogue.count_threads(
        ask.where.project,
        terms=ask.parsed.terms,
        now=ask.now,
        restricted=ask.where.officer,
    )
    return Count(shown=shown, total=total, more=total >= catalogue.COUNTED)


def _headings(ask: ListRequest[Visitor]) -> dict[str, Heading]:
    """Link each heading to the list in its order, and that of the list to the other."""
    parsed = cast("ThreadSearch", ask.parsed)
    return {
        column.name: _heading(ask, parsed, column)
        for column in (thread_table.THREAD, *thread_table.COLUMNS)
        if column.sort
    }


def _heading(
    ask: ListRequest[Visitor], parsed: ThreadSearch, column: Column
) -> Heading:
    sort = None if column.sort == _SORT else column.sort
    if parsed.sort != column.sort:
        return Heading(column=column, query=ask.query(sort=sort, order=None) or "q=")
    turned = parsed.rising == (column.sort in catalogue.RISING)
    order = ("desc" if parsed.rising else "asc") if turned else None
    return Heading(
        column=column,
        query=ask.query(sort=sort, order=order) or "q=",
        order="ascending" if parsed.rising else "descending",
    )


def _batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> Batch[ThreadLine]:
    parsed = cast("ThreadSearch", ask.parsed)
    return catalogue.list_threads(
        ask.where.project,
        terms=parsed.terms,
        now=ask.now,
        sort=parsed.sort,
        rising=parsed.rising,
        after=after,
        limit=limit,
        restricted=ask.where.officer,
    )


def _all(ask: ListRequest[Visitor]) -> Iterable[Sequence[ThreadLine]]:
    """List oldest first, other than on the page."""
    visitor = ask.where
    return catalogue.iter_threads(
        visitor.project, terms=ask.parsed.terms, now=ask.now, restricted=visitor.officer
    )


SCREEN = Screen(
    folder="threads",
    scope=screens.project_scope("threads", enter=enter, live=True),
    read=read,
    lines=_lines,
    around=_around,
    export=Export(
        fields=records.THREAD,
        record=lambda _, line: records.thread(line),
        batch=_batch,
        lines=_all,
        size=None,
    ),
)


REASONS: tuple[CloseReason, ...] = get_args(CloseReason)


@require_safe
@signed_in_panel
def panel(request: HttpRequest, project: str, panel: str) -> HttpResponse:
    """Show what stands beside the list and loads by itself."""
    visitor = enter(request, project)
    parsed, now = read(request), clock.now()
    if parsed.error:
        raise parsed.error
    shown = {"facets": _facets, "fresh": _fresh}.get(panel)
    if shown is None:
        raise Http404
    context = {"parsed": parsed, "visitor": visitor, "query": parsed.text}
    context |= shown(request, visitor, parsed, now)
    answer = render(request, f"inspector/threads/_{panel}.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def close(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    visitor.require(Membership.Role.EDITOR)
    reason = next((r for r in REASONS if r == request.POST.get("reason")), None)
    if request.method != "POST" or reason is None:
        context = {"row": row, "reasons": REASONS, "problem": None}
        status = 422 if request.method == "POST" else 200
        return _closing(request, visitor, context, status=status)
    try:
        operator_threads.close(row, actor=visitor.actor, reason=reason)
    except Refusal as refusal:
        context = {"row": row, "reasons": REASONS, "problem": refusal}
        status = refusals.status_of(refusal)
        return _closing(request, visitor, context, status=status)
    return HttpResponseRedirect(_thread_url(project, thread))


@require_post
@signed_in
def reopen(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    visitor.require(Membership.Role.EDITOR)
    operator_threads.reopen(row, actor=visitor.actor)
    return HttpResponseRedirect(_thread_url(project, thread))


def _closing(
    request: HttpRequest, visitor: Visitor, context: dict[str, Any], *, status: int
) -> HttpResponse:
    return shell.page(
        request,
        "inspector/threads/close.html",
        context,
        visitor=visitor,
        section="threads",
        status=status,
    )


def _thread_url(project: str, thread: str) -> str:
    return reverse("thread", kwargs={"project": project, "thread": thread})


def _facets(
    request: HttpRequest, visitor: Visitor, parsed: ThreadSearch, now: datetime
) -> dict[str, Any]:
    found = facets.get_facets(
        visitor.project, terms=parsed.terms, now=now, restricted=visitor.officer
    )
    return {"spread": found}


def _fresh(
    request: HttpRequest, visitor: Visitor, parsed: ThreadSearch, now: datetime
) -> dict[str, Any]:
    since = asof.since(request)
    count = catalogue.count_fresh(
        visitor.project,
        terms=parsed.terms,
        now=now,
        since=since,
        restricted=visitor.officer,
    )
    return {"fresh": count, "most": catalogue.FRESH, "since": since.isoformat()}
