from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_safe,
)

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import charts, outcomes
from inspector.drawing import curves as drawn_curves
from inspector.lists import visits
from inspector.paging import settings_form
from inspector.web import asof, exports, refusals
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from inspector.words.recall_words import RECALL_SOURCES
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.state.pages import LEVEL_NAMES
from memoryhub.kernel.text import names
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.paging import curves, paging_charts, previews
from memoryhub.queries.paging.paging_charts import ChartBucket
from memoryhub.queries.paging.previews import CommandPreview
from memoryhub.queries.replay import replay
from memoryhub.services.paging import operator_pages
from memoryhub.services.turns import foresights

#: Columns of the table and of the exports, in order.
COLUMNS = (
    "first", "last", "turn", "resident_rate", "lookups", "hits", "hit_rate", "faults",
    "refused", "refaults", "evicted", "lowered",
)  # fmt: skip

#: Events whose curves take no longer than other pages do, some 0.2 s.
_QUICK_EVENTS = 500

#: Texts for why the next turn does not prefetch a page.
_REASONS: Final[dict[str, str]] = {
    "shown": "the request shows the page whole anyway",
    "recall_off": "recall is switched off",
    "too_large": "the page is larger than all that a turn may prefetch",
    "no_room": "other pages take the room",
    "limit": "five pages or three claims come already",
    "erased": "the text was erased",
    "no_turn": "the thread can begin no turn",
}


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show charts of look-ups, faults and evictions, over all or part of the thread."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    first, last = _parse_stretch(request)
    narrowed = first is not None or last is not None
    context: dict[str, Any] = {
        **charts.build_context(row, first=first, last=last, by=_parse_axis(request)),
        # A part of the thread is complete, so its charts never change.
        "live": not narrowed,
        "narrowed": narrowed,
        "stretch": f"from={first or ''}&to={last or ''}",
        "editing": visitor.editor and row.status == Thread.Status.OPEN,
    }
    return visits.render_thread_page(
        request, "inspector/paging/show.html", visitor, row, context, live=not narrowed
    )


@require_safe
@require_signed_in
def show_curves(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show what other sizes, policies and budgets would have done, as of now.

    The page of a long thread comes without them, and asks for them by `?whole`.
    """
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    waits = row.head_seq > _QUICK_EVENTS and "whole" not in request.GET
    context: dict[str, Any] = {"waits": waits}
    if not waits:
        state = replay.load_state_at(row, row.head_seq).state
        context |= drawn_curves.build_context(curves.get_curves(row, state))
    answer = visits.render_thread_page(
        request, "inspector/paging/curves.html", visitor, row, context
    )
    if not waits:
        # The browser puts nothing else into the page that waits.
        answer.headers["MH-Panel"] = "1"
    return answer


@require_safe
@require_signed_in
def show_prefetch(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show the pages that the next turn prefetches, and why other pages stay."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    state = replay.load_state_at(row, row.head_seq).state
    found = foresights.get_prefetch(row, state, name=row.name)
    context = {
        "waits": state.paging.users_since_turn > 0,
        "coming": [
            each
            | {"why": RECALL_SOURCES[each["why"]], "level": LEVEL_NAMES[each["level"]]}
            for each in found["coming"]
        ],
        "staying": [
            each
            | {"why": RECALL_SOURCES[each["why"]], "reason": _REASONS[each["reason"]]}
            for each in found["staying"]
        ],
    }
    return visits.render_thread_page(
        request, "inspector/paging/prefetch.html", visitor, row, context
    )


@require_safe
@require_signed_in
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """Send the buckets of the charts as data."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    first, last = _parse_stretch(request)
    found = paging_charts.get_charts(row, first=first, last=last)
    causes = paging_charts.CAUSES
    return exports.answer(
        request,
        kind,
        f"{thread}-paging",
        heading=(*COLUMNS, *(f"evicted_{cause}" for cause in causes)),
        record=lambda bucket: _build_record(bucket, causes),
        part=lambda: ListBatch(items=found.buckets, next=None),
        parts=lambda: [found.buckets],
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def edit_settings(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show or set the thread's paging; an empty field leaves the default.

    A change that moves pages shows a preview before it is saved, and again if the
    outcome would differ from the preview.
    """
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    if request.method != "POST":
        return _render_form(request, visitor, row)
    try:
        config = settings_form.parse_config(request.POST)
        found = previews.get_preview(row, operator_pages.build_configuration(config))
        if found.has_moves and request.POST.get("seen") != found.digest:
            return _render_form(request, visitor, row, preview=found)
        operator_pages.configure_paging(
            row,
            actor=visitor.actor,
            config=config,
            if_match=found.seq if found.has_moves else None,
        )
    except Refusal as refusal:
        return _render_form(request, visitor, row, refusal=refusal)
    return HttpResponseRedirect(_build_url("paging-settings", project, thread))


@require_post
@require_signed_in
def flush(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Drop TLB entries: all, the entries of one tier, or the entry of one page."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    if page := request.POST.get("page", "").strip():
        operator_pages.invalidate_tlb(row, actor=visitor.actor, page_id=page)
        return HttpResponseRedirect(_build_back_url(request, project, thread, page))
    tier = request.POST.get("tier", "")
    if tier not in ("", "L0", "L1", "L2"):
        raise InvalidError(loc="tier")
    if tier:
        operator_pages.invalidate_tlb(row, actor=visitor.actor, tier=tier)  # type: ignore[arg-type]  # checked above
    else:
        operator_pages.flush_tlb(row, actor=visitor.actor)
    return HttpResponseRedirect(_build_url("paging", project, thread))


@require_post
@require_signed_in
def clear_prefetch(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Forget which pages are read before which tools."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    operator_pages.clear_prefetch(row, actor=visitor.actor)
    return HttpResponseRedirect(_build_url("paging", project, thread))


def _parse_axis(request: HttpRequest) -> str:
    """Parse the charts' axis: turns, or events if the URL asks for them."""
    return "event" if request.GET.get("by") == "event" else "turn"


def _build_back_url(request: HttpRequest, project: str, thread: str, page: str) -> str:
    """Build the address of the form: the page's own screen, or the charts."""
    if request.POST.get("back") != "page" or not names.is_valid(page):
        return _build_url("paging", project, thread)
    address = {"project": project, "thread": thread, "page": page}
    return reverse("page", kwargs=address)


def _render_form(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    *,
    preview: CommandPreview | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    sent = request.POST if request.method == "POST" else None
    wrong = refusal.loc if isinstance(refusal, InvalidError) else ""
    texts: refusals.Texts = {wrong: _describe_out_of_range(wrong)} if wrong else {}
    context = {
        "fields": settings_form.list_fields(row, sent=sent, wrong=wrong),
        "problem": refusals.get_error_text(refusal, texts, numbers=True),
        **(outcomes.build_preview_context(preview) if preview else {}),
    }
    return visits.render_thread_page(
        request,
        "inspector/paging/settings.html",
        visitor,
        row,
        context,
        status=refusals.get_status(refusal),
    )


def _describe_out_of_range(field: str) -> str:
    name = field.removeprefix("config.").replace("_", " ")
    return f"The value of {name} is out of range."


def _parse_stretch(request: HttpRequest) -> tuple[int | None, int | None]:
    first, last = asof.read_number(request, "from"), asof.read_number(request, "to")
    if first is not None and last is not None and first > last:
        raise InvalidError(loc="from")
    return first, last


def _build_record(bucket: ChartBucket, causes: tuple[str, ...]) -> dict[str, Any]:
    record = {name: getattr(bucket, name) for name in COLUMNS}
    evicted = {f"evicted_{each}": bucket.count(f"evicted.{each}") for each in causes}
    return record | evicted


def _build_url(name: str, project: str, thread: str) -> str:
    return reverse(name, kwargs={"project": project, "thread": thread})
