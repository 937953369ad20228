"""Terms: what a person asks of a list, already checked. Pure.

A term names a column of ours by its key; words of a client's never become one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any

from django.db.models import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Equal to the text, or beginning with it."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A number between two bounds; an `open` bound is itself left out."""

    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A stretch of time, begin <= time < end; None leaves that side open."""

    begin: datetime | None = None
    end: datetime | None = None


Value = Word | Span | Period


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTerm:
    """`key:value,value`: any of the values, or none of them when negated."""

    key: str
    values: tuple[Value, ...]
    negated: bool = False

    def plain(self) -> list[Any]:
        """Return JSON values that identify this term."""
        return [self.key, self.negated, [repr(value) for value in self.values]]


def word_in(column: str, word: Word) -> Q:
    """Filter a name column by a word."""
    if not word.prefix:
        return Q(**{column: word.text})
    # A range, since LIKE folds case on SQLite; names are ASCII.
    bounds = {f"{column}__gte": word.text, f"{column}__lt": word.text + "\x7f"}
    return Q(**bounds)


def span_of(column: str, span: Span, value: Callable[[float], Any] = float) -> Q:
    """Filter a column of numbers, or what `value` makes of them, by a span."""
    bounds = {}
    if span.low is not None:
        bounds[f"{column}__{'gt' if span.low_open else 'gte'}"] = value(span.low)
    if span.high is not None:
        bounds[f"{column}__{'lt' if span.high_open else 'lte'}"] = value(span.high)
    return Q(**bounds)


def within(number: float, span: Span) -> bool:
    """Return whether a number is in a span."""
    low = -inf if span.low is None else span.low
    high = inf if span.high is None else span.high
    above = number > low if span.low_open else number >= low
    below = number < high if span.high_open else number <= high
    return above and below


def time_of(column: str, stretch: Span | Period, now: datetime) -> Q:
    """Filter a column of times by a period, or by a span of ages in seconds."""
    if isinstance(stretch, Span):
        return age_of(column, stretch, now)
    bounds = {f"{column}__gte": stretch.begin, f"{column}__lt": stretch.end}
    return Q(**{name: bound for name, bound in bounds.items() if bound is not None})


def age_of(column: str, span: Span, now: datetime) -> Q:
    """Filter a column of times by a span of ages: what is younger was later."""
    turned = Span(
        low=span.high,
        high=span.low,
        low_open=span.high_open,
        high_open=span.low_open,
    )
    return span_of(column, turned, lambda age: now - timedelta(seconds=age))
