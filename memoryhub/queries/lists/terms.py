"""Search terms of lists, already validated, and their filters. Pure.

The key of a term maps to a column; a client's words never become a column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any

from django.db.models import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class WordValue:
    """A text that a column equals, or begins with if `prefix`."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSpan:
    """A range of numbers between two bounds; an `open` bound is excluded."""

    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A stretch of time, begin <= time < end; None leaves that side open."""

    begin: datetime | None = None
    end: datetime | None = None


Value = WordValue | NumberSpan | Period


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTerm:
    """`key:value,value`: any of the values, or none of the values when negated."""

    key: str
    values: tuple[Value, ...]
    negated: bool = False

    def to_json(self) -> list[Any]:
        """Return JSON values that identify this term."""
        return [self.key, self.negated, [repr(value) for value in self.values]]


def filter_word(column: str, word: WordValue) -> Q:
    """Filter a name column by a word."""
    if not word.prefix:
        return Q(**{column: word.text})
    # A range, since LIKE folds case on SQLite; names are ASCII.
    bounds = {f"{column}__gte": word.text, f"{column}__lt": word.text + "\x7f"}
    return Q(**bounds)


def filter_span(
    column: str, span: NumberSpan, value: Callable[[float], Any] = float
) -> Q:
    """Filter a column by a span of numbers; `value` converts each bound."""
    bounds = {}
    if span.low is not None:
        bounds[f"{column}__{'gt' if span.low_open else 'gte'}"] = value(span.low)
    if span.high is not None:
        bounds[f"{column}__{'lt' if span.high_open else 'lte'}"] = value(span.high)
    return Q(**bounds)


def is_within(number: float, span: NumberSpan) -> bool:
    """Return whether a number is in a span."""
    low = -inf if span.low is None else span.low
    high = inf if span.high is None else span.high
    above = number > low if span.low_open else number >= low
    below = number < high if span.high_open else number <= high
    return above and below


def filter_time(column: str, stretch: NumberSpan | Period, now: datetime) -> Q:
    """Filter a column of times by a period, or by a span of ages in seconds."""
    if isinstance(stretch, NumberSpan):
        return filter_age(column, stretch, now)
    bounds = {f"{column}__gte": stretch.begin, f"{column}__lt": stretch.end}
    return Q(**{name: bound for name, bound in bounds.items() if bound is not None})


def filter_age(column: str, span: NumberSpan, now: datetime) -> Q:
    """Filter a column of times by a span of ages in seconds."""
    turned = NumberSpan(
        low=span.high,
        high=span.low,
        low_open=span.high_open,
        high_open=span.low_open,
    )
    return filter_span(column, turned, lambda age: now - timedelta(seconds=age))
