from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.drawing import thread_table
from inspector.drawing.thread_table import ThreadRow
from inspector.overview import charts, time_plots
from inspector.overview.time_plots import OnsetPoint
from inspector.web import shell
from inspector.web.visitors import Visitor
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.memory import stats
from memoryhub.queries.overview import series, unhealthy
from memoryhub.queries.overview.series import ActivityBin, ActivitySeries
from memoryhub.queries.overview.unhealthy import Unhealthy
from memoryhub.queries.threads import catalogue, verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import VERDICTS, ThreadVerdict
from memoryhub.queries.turns import prices
from memoryhub.queries.turns.prices import PriceTable

#: Recently active threads, and unhealthy things, that the screen shows.
RECENT, SHOWN = 8, 5
#: Figures that the chart of tokens may show.
SPENT = ("tokens", "calls", "cost")
#: Least exchanges on each side of an onset, and least fall of the rate, to report it.
_COMPARED, _FELL = 20, 0.05
#: Bins at the end of a range that count as now: five minutes, an hour, a day.
_NOW_BINS = {"15m": 5, "1h": 5, "24h": 4, "30d": 4}
_NOW_WORDS = {"15m": "5 min", "1h": "5 min", "24h": "hour", "30d": "day"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentRateFall:
    """Fall of the resident rate at the earliest onset of the list."""

    before: ActivityBin
    after: ActivityBin
    at: str


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show what needs attention, since when, and the project's activity."""
    visitor = access.require_visitor(request, project)
    return shell.render_page(
        request,
        "inspector/overview/show.html",
        _build_context(request, visitor),
        visitor=visitor,
        section="overview",
        live=True,
    )


@require_safe
@require_signed_in_panel
def show_panel(request: HttpRequest, project: str) -> HttpResponse:
    """Show the live panel, the whole page, since any event may change every part."""
    visitor = access.require_visitor(request, project)
    context = _build_context(request, visitor) | {"visitor": visitor, "refreshed": True}
    answer = render(request, "inspector/overview/_panel.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


def read_range(request: HttpRequest) -> str:
    """Read the range of time from the URL; an unknown range is the default."""
    chosen = request.GET.get("range", "")
    return chosen if chosen in series.RANGES else series.DEFAULT_RANGE


def _build_context(request: HttpRequest, visitor: Visitor) -> dict[str, Any]:
    """Build the page's context. About fifty small queries for any number of threads."""
    now, chosen = clock.now(), read_range(request)
    project = visitor.project
    recent = _list_recent(visitor)
    goal = Thresholds.from_project(project).least_resident_percent / 100
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
        "closed": _list_closed(visitor.project, now),
        "recent": recent,
        "counts": stats.get_project_counts(project.id, now=now),
        "goal": goal,
        "taken_at": now,
    }
    counted = series.get_series(project.id, series.RANGES[chosen], now=now)
    threads = reverse("threads", kwargs={"project": project.slug})
    moments = charts.list_onsets(counted, found.things[:SHOWN], threads)
    table = prices.get_table(project)
    return context | _build_charts(counted, found, moments, context, table)


def _build_charts(
    counted: ActivitySeries,
    found: Unhealthy,
    moments: Sequence[OnsetPoint],
    context: dict[str, Any],
    table: PriceTable,
) -> dict[str, Any]:
    """Build the charts for the range, spending and goal of the page's context."""
    whole, chosen, goal = counted.whole, context["range"], context["goal"]
    lead = charts.draw_resident(
        counted, moments, goal=goal, things=len(context["things"])
    )
    small = charts.draw_small(counted, moments, spent=context["spent"], prices=table)
    named = {"lead": lead, **small}
    return {
        "whole": whole,
        "lately": series.sum_bins(counted.bins[-_NOW_BINS[chosen] :]),
        "lately_word": _NOW_WORDS[chosen],
        "fall": _find_fall(counted, found),
        "worst": _find_worst(found, goal),
        "enough": whole.exchanges >= series.ENOUGH_EXCHANGES,
        "cost": whole.compute_cost(table),
        "codes": charts.list_code_keys(whole.refusals),
        "lead": lead,
        "small": small,
        "drawn": orjson.dumps(
            [time_plots.build_data(name, plot) for name, plot in named.items()]
        ).decode(),
        "median": whole.compute_wait(0.5),
        "slowest": whole.compute_wait(0.99),
        "longest": (series.LONGEST_WAIT, series.LONGEST_ANSWER),
        "answer_median": whole.compute_answer_time(0.5),
        "answer_slow": whole.compute_answer_time(0.95),
    }


def _list_closed(project: Project, now: datetime) -> list[tuple[ThreadVerdict, int]]:
    """List the verdicts that closed threads met, each with the number of threads."""
    counts = verdicts.count_closed(project, now)
    return [(each, counts[each.flag]) for each in VERDICTS if each.flag in counts]


def _find_fall(counted: ActivitySeries, found: Unhealthy) -> ResidentRateFall | None:
    """Find the fall of the resident rate at the earliest onset of the list."""
    starts = [each.onset.at for each in found.things if each.thread and each.onset.at]
    at = min(
        (each for each in starts if counted.find_position(each) is not None),
        default=None,
    )
    before = counted.sum_before(at) if at else None
    after = counted.sum_since(at) if at else None
    if at is None or before is None or after is None:
        return None
    one, other = before.resident_rate, after.resident_rate
    if min(before.exchanges, after.exchanges) < _COMPARED:
        return None
    if one is None or other is None or one - other < _FELL:
        return None
    return ResidentRateFall(
        before=before, after=after, at=charts.render_time(counted, at)
    )


def _find_worst(found: Unhealthy, goal: float) -> ThreadLine | None:
    """Find the listed thread with the lowest resident rate, if below the goal."""
    below = [
        (rate, each.thread)
        for each in found.things
        if each.thread and (rate := each.thread.resident_rate) is not None
    ]
    rate, line = min(below, key=itemgetter(0), default=(1.0, None))
    return line if rate < goal else None


def _list_recent(visitor: Visitor) -> tuple[ThreadRow, ...]:
    """List the latest active threads. The visitor is noted to have read their ends."""
    listed = catalogue.list_threads(
        visitor.project,
        terms=(),
        now=clock.now(),
        limit=RECENT,
        restricted=visitor.officer,
    )
    table = thread_table.build_table(
        listed.items, limits=Thresholds.from_project(visitor.project)
    )
    visitor.note_threads(table.read)
    return table.rows
