from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from inspector import (
    access,
    asof,
    exports,
    outcomes,
    panels,
    refusals,
    settings_form,
    shell,
)
from inspector.access import signed_in
from inspector.panels import Scene
from inspector.places import Place
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel import names
from memoryhub.models.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries import paging_charts, previews
from memoryhub.queries.cursors import Batch
from memoryhub.queries.paging_charts import Bucket, Charts
from memoryhub.queries.previews import Preview
from memoryhub.services import operator_pages

#: Columns of the table and of the exports, in order.
COLUMNS = (
    "first", "last", "turn", "lookups", "hits", "hit_rate", "faults", "refused",
    "refaults", "evicted", "lowered",
)  # fmt: skip
_HUES = ("good", "bad", "warn", "tool", "assistant", "system", "user")
_FAULTS = (("faults", "faults"), ("refused", "refused"), ("refaults", "refaults"))


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """How look-ups, faults and evictions went, over the thread or a part of it."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    first, last = _stretch(request)
    charts = paging_charts.get_charts(row, first=first, last=last)
    shared = panels.shared(Scene(thread=row))
    context: dict[str, Any] = {
        **shared,
        "charts": charts,
        "drawn": _drawn(charts, shared["base"]),
        "narrowed": first is not None or last is not None,
        "asked": f"from={first or ''}&to={last or ''}",
    }
    return shell.page(
        request, "inspector/paging/show.html", context, place=place, section="threads"
    )


@require_safe
@signed_in
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """The buckets of the charts as data."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    first, last = _stretch(request)
    charts = paging_charts.get_charts(row, first=first, last=last)
    causes = paging_charts.CAUSES
    return exports.answer(
        request,
        kind,
        f"{thread}-paging",
        heading=(*COLUMNS, *(f"evicted_{cause}" for cause in causes)),
        record=lambda bucket: _record(bucket, causes),
        part=lambda: Batch(items=charts.buckets, next=None),
        parts=lambda: [charts.buckets],
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def settings(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """What paging is set to in this thread; an empty field leaves the default.

    What moves pages is shown before it is saved, and again once it would come out
    differently.
    """
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    place.require(Membership.Role.EDITOR)
    if request.method != "POST":
        return _form(request, place, row)
    try:
        config = settings_form.read(request.POST)
        found = previews.get_preview(row, operator_pages.configuring(config))
        if found.moves and request.POST.get("seen") != found.digest:
            return _form(request, place, row, preview=found)
        operator_pages.configure(
            row,
            actor=place.actor,
            config=config,
            if_match=found.seq if found.moves else None,
        )
    except Refusal as refusal:
        return _form(request, place, row, refusal=refusal)
    return HttpResponseRedirect(_url("paging-settings", project, thread))


@require_POST
@signed_in
def flush(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Drop the TLB's entries: all, those of one tier, or that of one page."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    place.require(Membership.Role.EDITOR)
    if page := request.POST.get("page", "").strip():
        operator_pages.invalidate(row, actor=place.actor, page_id=page)
        return HttpResponseRedirect(_back(request, project, thread, page))
    tier = request.POST.get("tier", "")
    if tier not in ("", "L0", "L1", "L2"):
        raise InvalidError(loc="tier")
    if tier:
        operator_pages.invalidate(row, actor=place.actor, tier=tier)  # type: ignore[arg-type]  # checked above
    else:
        operator_pages.flush(row, actor=place.actor)
    return HttpResponseRedirect(_url("paging", project, thread))


def _back(request: HttpRequest, project: str, thread: str, page: str) -> str:
    """Where the form stood: on the page's own screen, or beside the charts."""
    if request.POST.get("back") != "page" or not names.valid(page):
        return _url("paging", project, thread)
    known = {"project": project, "thread": thread, "page": page}
    return reverse("page", kwargs=known)


def _form(
    request: HttpRequest,
    place: Place,
    row: Thread,
    *,
    preview: Preview | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    sent = request.POST if request.method == "POST" else None
    wrong = refusal.loc if isinstance(refusal, InvalidError) else ""
    context = {
        **panels.shared(Scene(thread=row)),
        "fields": settings_form.fields(row, sent=sent, wrong=wrong),
        "problem": _said(refusal, wrong),
        **(outcomes.told(preview) if preview else {}),
    }
    return shell.page(
        request,
        "inspector/paging/settings.html",
        context,
        place=place,
        section="threads",
        status=refusals.status_of(refusal) if refusal else 200,
    )


def _said(refusal: Refusal | None, wrong: str) -> str:
    if refusal is None:
        return ""
    if not wrong:
        return refusal.sentence
    name = wrong.removeprefix("config.").replace("_", " ")
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


def _drawn(charts: Charts, base: str) -> dict[str, Any]:
    """What charts.js draws, all of it numbers and words of ours."""
    buckets = charts.buckets
    rate = _line("hit rate", "good", [bucket.hit_rate for bucket in buckets])
    asked = _line("look-ups", "user", [bucket.lookups for bucket in buckets])
    causes = [(each, f"evicted.{each}") for each in charts.causes]
    return {
        "base": base,
        "brush": True,
        "x": [bucket.last for bucket in buckets],
        "charts": {
            "rate": {"most": 1, "series": [rate]},
            "lookups": {"series": [asked, *_lines(charts, [("hits", "hits")])]},
            "faults": {"series": _lines(charts, _FAULTS)},
            "evictions": {"series": _lines(charts, causes)},
        },
    }


def _lines(charts: Charts, named: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """A line for each label and counter, in hues that differ."""
    told = paging_charts.series(charts.buckets, [name for _, name in named])
    return [
        _line(label, _HUES[n % len(_HUES)], values)
        for n, ((label, _), values) in enumerate(zip(named, told, strict=True))
    ]


def _line(label: str, hue: str, values: list[Any]) -> dict[str, Any]:
    return {"label": label, "hue": hue, "values": values}


def _url(name: str, project: str, thread: str) -> str:
    return reverse(name, kwargs={"project": project, "thread": thread})
