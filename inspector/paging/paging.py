from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_safe,
)

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import charts, outcomes
from inspector.lists import visits
from inspector.paging import settings_form
from inspector.web import asof, exports, refusals
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.text import names
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.paging import paging_charts, previews
from memoryhub.queries.paging.paging_charts import Bucket
from memoryhub.queries.paging.previews import Preview
from memoryhub.services.paging import operator_pages

#: Columns of the table and of the exports, in order.
COLUMNS = (
    "first", "last", "turn", "resident_rate", "lookups", "hits", "hit_rate", "faults",
    "refused", "refaults", "evicted", "lowered",
)  # fmt: skip


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show how look-ups, faults and evictions went, over the thread or a part of it."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    first, last = _stretch(request)
    narrowed = first is not None or last is not None
    context: dict[str, Any] = {
        **charts.picture(row, first=first, last=last, by=_by(request)),
        # A stretch is over: nothing of it moves.
        "live": not narrowed,
        "narrowed": narrowed,
        "stretch": f"from={first or ''}&to={last or ''}",
        "editing": visitor.editor and row.status == Thread.Status.OPEN,
    }
    return visits.thread_page(
        request, "inspector/paging/show.html", visitor, row, context, live=not narrowed
    )


@require_safe
@signed_in
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """Send the buckets of the charts as data."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    first, last = _stretch(request)
    found = paging_charts.get_charts(row, first=first, last=last)
    causes = paging_charts.CAUSES
    return exports.answer(
        request,
        kind,
        f"{thread}-paging",
        heading=(*COLUMNS, *(f"evicted_{cause}" for cause in causes)),
        record=lambda bucket: _record(bucket, causes),
        part=lambda: Batch(items=found.buckets, next=None),
        parts=lambda: [found.buckets],
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def settings(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show or set the thread's paging; an empty field leaves the default.

    What moves pages is shown before it is saved, and again once it would come out
    differently.
    """
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    visitor.require(Membership.Role.EDITOR)
    if request.method != "POST":
        return _form(request, visitor, row)
    try:
        config = settings_form.read(request.POST)
        found = previews.get_preview(row, operator_pages.configuring(config))
        if found.moves and request.POST.get("seen") != found.digest:
            return _form(request, visitor, row, preview=found)
        operator_pages.configure(
            row,
            actor=visitor.actor,
            config=config,
            if_match=found.seq if found.moves else None,
        )
    except Refusal as refusal:
        return _form(request, visitor, row, refusal=refusal)
    return HttpResponseRedirect(_url("paging-settings", project, thread))


@require_post
@signed_in
def flush(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Drop the TLB's entries: all, those of one tier, or that of one page."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    visitor.require(Membership.Role.EDITOR)
    if page := request.POST.get("page", "").strip():
        operator_pages.invalidate(row, actor=visitor.actor, page_id=page)
        return HttpResponseRedirect(_back(request, project, thread, page))
    tier = request.POST.get("tier", "")
    if tier not in ("", "L0", "L1", "L2"):
        raise InvalidError(loc="tier")
    if tier:
        operator_pages.invalidate(row, actor=visitor.actor, tier=tier)  # type: ignore[arg-type]  # checked above
    else:
        operator_pages.flush(row, actor=visitor.actor)
    return HttpResponseRedirect(_url("paging", project, thread))


def _by(request: HttpRequest) -> str:
    """Read what the charts go along: turns, unless events are asked for."""
    return "event" if request.GET.get("by") == "event" else "turn"


def _back(request: HttpRequest, project: str, thread: str, page: str) -> str:
    """Find where the form stood: on the page's own screen, or with the charts."""
    if request.POST.get("back") != "page" or not names.valid(page):
        return _url("paging", project, thread)
    address = {"project": project, "thread": thread, "page": page}
    return reverse("page", kwargs=address)


def _form(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    *,
    preview: Preview | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    sent = request.POST if request.method == "POST" else None
    wrong = refusal.loc if isinstance(refusal, InvalidError) else ""
    texts: refusals.Texts = {wrong: _out_of_range(wrong)} if wrong else {}
    context = {
        "fields": settings_form.fields(row, sent=sent, wrong=wrong),
        "problem": refusals.error_text(refusal, texts, numbers=True),
        **(outcomes.preview_context(preview) if preview else {}),
    }
    return visits.thread_page(
        request,
        "inspector/paging/settings.html",
        visitor,
        row,
        context,
        status=refusals.status_of(refusal),
    )


def _out_of_range(field: str) -> str:
    name = field.removeprefix("config.").replace("_", " ")
    return f"What is set for {name} does not fit: it is out of its range."


def _stretch(request: HttpRequest) -> tuple[int | None, int | None]:
    first, last = asof.number(request, "from"), asof.number(request, "to")
    if first is not None and last is not None and first > last:
        raise InvalidError(loc="from")
    return first, last


def _record(bucket: Bucket, causes: tuple[str, ...]) -> dict[str, Any]:
    record = {name: getattr(bucket, name) for name in COLUMNS}
    evicted = {f"evicted_{each}": bucket.count(f"evicted.{each}") for each in causes}
    return record | evicted


def _url(name: str, project: str, thread: str) -> str:
    return reverse(name, kwargs={"project": project, "thread": thread})
