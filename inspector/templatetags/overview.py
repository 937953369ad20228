"""Times, shares and verdicts as the overview shows them."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template

from inspector.overview import charts, time_plots
from inspector.templatetags import units
from memoryhub.queries.threads import verdicts

register = template.Library()
register.filter("code", charts.word_of)
register.filter("wrong", verdicts.find_in_line)

#: The share of its budget from which on a thread's working set is nearly full.
_NEARLY = 0.85


@register.filter
def flag_word(flag: str) -> str:
    """What is read in the place of a flag of the search; of another value itself."""
    return verdicts.WORDS.get(flag, flag)


@register.filter
def elapsed(at: datetime, now: datetime) -> str:
    """How long it is since then."""
    return units.span(now - at)


@register.filter
def moment(at: datetime, now: datetime) -> str:
    """A time of today, or the day it was, in UTC."""
    same = at.astimezone(UTC).date() == now.astimezone(UTC).date()
    return time_plots.clock(at, dated=not same)


@register.filter
def waited(milliseconds: float) -> str:
    """A time that commands waited: 3.3 ms, 14 ms."""
    digits = 1 if milliseconds < 10 else 0
    return f"{milliseconds:,.{digits}f} ms"


@register.filter
def over(part: int, whole: int) -> bool:
    return part > _NEARLY * whole


@register.filter
def portion(part: int, whole: int) -> str:
    """The width of a bar, in percent."""
    return time_plots.percent(min(1.0, part / whole) if whole else 0.0)
