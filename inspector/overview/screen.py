from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in, signed_in_panel
from inspector.drawing import thread_table
from inspector.drawing.thread_table import ThreadRow
from inspector.overview import charts, time_plots
from inspector.overview.time_plots import Onset
from inspector.web import shell
from inspector.web.visitors import Visitor
from memoryhub.models.server.clock import clock
from memoryhub.queries.memory import stats
from memoryhub.queries.overview import series, unhealthy
from memoryhub.queries.overview.series import Bin, Series
from memoryhub.queries.overview.unhealthy import Unhealthy
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.verdicts import LEAST_RESIDENT_RATE, VERDICTS

#: Threads that moved last, and things to look at, that are shown.
RECENT, SHOWN = 8, 5
#: What the chart of tokens may show instead.
SPENT = ("tokens", "calls", "cost")
#: Exchanges before and after a moment, and the difference, that make it worth a word.
_COMPARED, _FELL = 20, 0.05
#: Bins at the end of a range that are now: five minutes, an hour, a day.
_NOW_BINS = {"15m": 5, "1h": 5, "24h": 4, "30d": 4}
_NOW_WORDS = {"15m": "5 min", "1h": "5 min", "24h": "hour", "30d": "day"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """Hold how the resident rate went down at the first moment of the list."""

    before: Bin
    after: Bin
    at: str


@require_safe
@signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show what needs a look, since when, and what the project does."""
    visitor = access.find_visitor(request, project)
    return shell.page(
        request,
        "inspector/overview/show.html",
        _context(request, visitor),
        visitor=visitor,
        section="overview",
        live=True,
    )


@require_safe
@signed_in_panel
def panel(request: HttpRequest, project: str) -> HttpResponse:
    """Show what the page follows by: all of it, for what moves moves all."""
    visitor = access.find_visitor(request, project)
    context = _context(request, visitor) | {"visitor": visitor, "refreshed": True}
    answer = render(request, "inspector/overview/_panel.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


def read_range(request: HttpRequest) -> str:
    """Read which range of time is wanted; what is none of ours is the hour."""
    chosen = request.GET.get("range", "")
    return chosen if chosen in series.RANGES else series.DEFAULT_RANGE


def _context(request: HttpRequest, visitor: Visitor) -> dict[str, Any]:
    """About fifty small queries, whatever there is of threads."""
    now, chosen = clock.now(), read_range(request)
    project = visitor.project
    recent = _recent(visitor)
    found = unhealthy.get_unhealthy(project, now=now)
    spent = request.GET.get("chart", "")
    context: dict[str, Any] = {
        "ranges": {word: each.word for word, each in series.RANGES.items()},
        "range": chosen,
        "spent": spent if spent in SPENT else SPENT[0],
        "empty": not recent,
        "found": found,
        "unhealthy": found.count,
        "refreshed": False,
        "things": found.things[:SHOWN],
        "left_out": found.count - len(found.things[:SHOWN]),
        "flags": [
            (each, found.counts[each.flag])
            for each in VERDICTS
            if found.counts.get(each.flag)
        ],
        "recent": recent,
        "counts": stats.get_project_counts(project.id, now=now),
        "goal": LEAST_RESIDENT_RATE,
        "taken_at": now,
    }
    counted = series.get_series(project.id, series.RANGES[chosen], now=now)
    threads = reverse("threads", kwargs={"project": project.slug})
    moments = charts.onsets(counted, found.things[:SHOWN], threads)
    return context | _drawn(counted, found, moments, chosen, context["spent"])


def _drawn(
    counted: Series,
    found: Unhealthy,
    moments: Sequence[Onset],
    chosen: str,
    spent: str,
) -> dict[str, Any]:
    whole = counted.whole
    lead = charts.resident(counted, moments)
    small = charts.small(counted, moments, spent=spent)
    named = {"lead": lead, **small}
    return {
        "whole": whole,
        "lately": series.summed(counted.bins[-_NOW_BINS[chosen] :]),
        "lately_word": _NOW_WORDS[chosen],
        "fall": _fall(counted, found),
        "worst": _worst(found),
        "enough": whole.exchanges >= series.ENOUGH_EXCHANGES,
        "costs": counted.costs,
        "codes": charts.code_keys(whole.refusals),
        "lead": lead,
        "small": small,
        "drawn": orjson.dumps(
            [time_plots.data(name, plot) for name, plot in named.items()]
        ).decode(),
        "median": whole.waited(0.5),
        "slowest": whole.waited(0.99),
    }


def _fall(counted: Series, found: Unhealthy) -> Fall | None:
    """Tell how the rate fell where the first thread of the list became unhealthy."""
    starts = [each.onset.at for each in found.things if each.thread and each.onset.at]
    at = min((each for each in starts if counted.place(each) is not None), default=None)
    before = counted.before(at) if at else None
    after = counted.since(at) if at else None
    if at is None or before is None or after is None:
        return None
    one, other = before.resident_rate, after.resident_rate
    if min(before.exchanges, after.exchanges) < _COMPARED:
        return None
    if one is None or other is None or one - other < _FELL:
        return None
    return Fall(before=before, after=after, at=charts.time_of(counted, at))


def _worst(found: Unhealthy) -> ThreadLine | None:
    """Find the thread of the list that had to fetch most, if that is below the goal."""
    below = [
        (rate, each.thread)
        for each in found.things
        if each.thread and (rate := each.thread.resident_rate) is not None
    ]
    rate, line = min(below, key=itemgetter(0), default=(1.0, None))
    return line if rate < LEAST_RESIDENT_RATE else None


def _recent(visitor: Visitor) -> tuple[ThreadRow, ...]:
    """List the threads that moved last. Who looks is noted to have read their ends."""
    listed = catalogue.list_threads(
        visitor.project,
        terms=(),
        now=clock.now(),
        limit=RECENT,
        restricted=visitor.officer,
    )
    table = thread_table.make(listed.items)
    visitor.note(table.read)
    return table.rows
