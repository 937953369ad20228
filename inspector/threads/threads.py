"""Threads: all of a project, searched, in an order of choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast, get_args
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from inspector.access import access
from inspector.access.access import signed_in, signed_in_panel
from inspector.drawing import policy
from inspector.lists import screens
from inspector.lists.screens import Context, Export, ListRequest, Screen
from inspector.web import records, refusals, search, shell
from inspector.web.places import Place
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.state.events import CloseReason
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.threads import catalogue, facets
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.services.threads import operator_threads

#: The order unless another one is chosen.
_SORT = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(search.Asked):
    """What the URL asks of the list."""

    #: The days of a retention policy that is not saved; None goes by the saved one.
    assumed: str | None = None

    @property
    def sort(self) -> str:
        return self.options.get("sort") or _SORT

    def query(self, **more: str | int | None) -> str:
        """This list's query, with changes, as it stands behind the `?`."""
        # Named in full: a slotted dataclass is another class than super() looks for.
        said = search.Asked.query(self, **more)
        return "&".join(part for part in (said, self.kept) if part)

    @property
    def kept(self) -> str:
        """What else links to this list take along."""
        return "" if self.assumed is None else urlencode({policy.FIELD: self.assumed})


def enter(request: HttpRequest, project: str) -> Place:
    """As everywhere, but under the policy that the URL asks for."""
    place = access.find_place(request, project)
    return replace(place, project=policy.assumed(request, place.project))


def read(request: HttpRequest) -> Asked:
    """The search, the order and the policy that is assumed."""
    found = search.asked(request.GET.get("q", ""), search.THREADS)
    sort = request.GET.get("sort", "")
    return Asked(
        text=found.text,
        terms=found.terms,
        error=found.error,
        options={"sort": sort if sort in catalogue.SORTS and sort != _SORT else ""},
        assumed=request.GET.get(policy.FIELD),
    )


def _around(ask: ListRequest[Place]) -> Context:
    return {
        "query": ask.asked.text,
        "sorts": [(sort, ask.query(sort=sort)) for sort in catalogue.SORTS],
        "since": ask.now.isoformat(),
    }


def _batch(ask: ListRequest[Place], after: str | None, limit: int) -> Batch[ThreadLine]:
    return catalogue.list_threads(
        ask.where.project,
        terms=ask.asked.terms,
        now=ask.now,
        sort=cast("Asked", ask.asked).sort,
        after=after,
        limit=limit,
        restricted=ask.where.officer,
    )


def _all(ask: ListRequest[Place]) -> Iterable[Sequence[ThreadLine]]:
    """Oldest first, other than on the page."""
    place = ask.where
    return catalogue.iter_threads(
        place.project, terms=ask.asked.terms, now=ask.now, restricted=place.officer
    )


SCREEN = Screen(
    folder="threads",
    scope=screens.project_scope("threads", enter=enter, live=True),
    read=read,
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
    """What stands beside the list and loads by itself."""
    place = enter(request, project)
    asked, now = read(request), clock.now()
    if asked.error:
        raise asked.error
    shown = {"facets": _facets, "fresh": _fresh}.get(panel)
    if shown is None:
        raise Http404
    context = {"asked": asked, "place": place, "query": asked.text}
    context |= shown(request, place, asked, now)
    answer = render(request, f"inspector/threads/_{panel}.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def close(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    place.require(Membership.Role.EDITOR)
    reason = next((r for r in REASONS if r == request.POST.get("reason")), None)
    if request.method != "POST" or reason is None:
        context = {"row": row, "reasons": REASONS, "problem": None}
        status = 422 if request.method == "POST" else 200
        return _closing(request, place, context, status=status)
    try:
        operator_threads.close(row, actor=place.actor, reason=reason)
    except Refusal as refusal:
        context = {"row": row, "reasons": REASONS, "problem": refusal}
        status = refusals.status_of(refusal)
        return _closing(request, place, context, status=status)
    return HttpResponseRedirect(_thread_url(project, thread))


@require_POST
@signed_in
def reopen(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    place.require(Membership.Role.EDITOR)
    operator_threads.reopen(row, actor=place.actor)
    return HttpResponseRedirect(_thread_url(project, thread))


def _closing(
    request: HttpRequest, place: Place, context: dict[str, Any], *, status: int
) -> HttpResponse:
    return shell.page(
        request,
        "inspector/threads/close.html",
        context,
        place=place,
        section="threads",
        status=status,
    )


def _thread_url(project: str, thread: str) -> str:
    return reverse("thread", kwargs={"project": project, "thread": thread})


def _facets(
    request: HttpRequest, place: Place, asked: Asked, now: datetime
) -> dict[str, Any]:
    found = facets.get_facets(
        place.project, terms=asked.terms, now=now, restricted=place.officer
    )
    return {"spread": found}


def _fresh(
    request: HttpRequest, place: Place, asked: Asked, now: datetime
) -> dict[str, Any]:
    since = _since(request)
    count = catalogue.count_fresh(
        place.project,
        terms=asked.terms,
        now=now,
        since=since,
        restricted=place.officer,
    )
    return {"fresh": count, "most": catalogue.FRESH, "since": since.isoformat()}


def _since(request: HttpRequest) -> datetime:
    try:
        since = parse_datetime(request.GET.get("since", ""))
        if since is not None and since.tzinfo is not None:
            return since.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no time, or one that UTC has no year for
    raise InvalidError(loc="since")
