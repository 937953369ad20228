"""Filters of the overview: times, shares and verdicts."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template

from inspector.overview import charts, time_plots
from inspector.templatetags import units
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import ThreadVerdict

register = template.Library()
register.filter("code", charts.describe_code)

#: Share of the budget beyond which a working set counts as nearly full.
_NEARLY_FULL = 0.85


@register.filter
def flag_word(flag: str) -> str:
    """Return the words for a flag of the search; any other value unchanged."""
    return verdicts.WORDS.get(flag, flag)


@register.filter("verdicts")
def find_verdicts(line: ThreadLine, limits: Thresholds) -> tuple[ThreadVerdict, ...]:
    """Return the verdicts from the counters of a thread, as of the line's moment."""
    return verdicts.find_in_line(line, limits)


@register.filter
def elapsed(at: datetime, now: datetime) -> str:
    """Render the time from `at` to `now`."""
    return units.span(now - at)


@register.filter
def moment(at: datetime, now: datetime) -> str:
    """Render a time of today without its date, any other with it, in UTC."""
    same = at.astimezone(UTC).date() == now.astimezone(UTC).date()
    return time_plots.render_clock(at, dated=not same)


@register.filter
def waited(milliseconds: float, most: float) -> str:
    """Render a waiting time: 3.3 ms, 14 ms, or over the most that is measured."""
    if milliseconds >= most:
        return f"over {most:,.0f} ms"
    digits = 1 if milliseconds < 10 else 0
    return f"{milliseconds:,.{digits}f} ms"


@register.filter
def over(part: int, whole: int) -> bool:
    return part > _NEARLY_FULL * whole


@register.filter
def portion(part: int, whole: int) -> str:
    """Render a share as the width of a bar, in percent."""
    return time_plots.render_percent(min(1.0, part / whole) if whole else 0.0)
