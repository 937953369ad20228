"""Facets: how the threads that match are spread over what they can be narrowed by.

Never writes. Counts the newest threads only, up to a bound, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Count, QuerySet

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.lists.terms import SearchTerm, Word
from memoryhub.queries.threads import catalogue, verdicts
from memoryhub.queries.threads.verdicts import Counters

#: Threads that are counted at most, values shown of a facet, facets of labels. Of all
#: that a project may have, the panel would cost several times what its page does.
COUNTED, TOP, LABELS = 2_000, 8, 6
_COLUMNS = ("status", "agent_type", "agent_instance", "session")
#: Counted over all that match: what is due was not active lately, and what was refused
#: stands in another table.
_OF_ALL = ("full", "refused", "due")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    value: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One search key and its most frequent values."""

    key: str
    choices: tuple[Choice, ...]
    #: Values that are not shown.
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    facets: tuple[Facet, ...]
    counted: int
    #: There are more threads than were counted.
    capped: bool


def get_facets(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    restricted: bool = True,
) -> Facets:
    """Count over the newest COUNTED threads that match. Five queries.

    What is full, refused or due is counted over all that match, up to COUNTED.
    """
    matching = partial(catalogue.matching, project, now=now, restricted=restricted)
    newest = matching(terms=terms).order_by("-listed_at")
    found = list(newest.values_list(*_COLUMNS)[: COUNTED + 1])
    counted = found[:COUNTED]
    spread = [
        _facet(key, Counter(row[place] for row in counted if row[place]))
        for place, key in enumerate(_COLUMNS)
    ]
    labels = _labels(newest)
    looked = newest.filter(verdicts.looked_at(now)).values_list(*verdicts.COLUMNS)
    flags = _flags(matching, terms) + _paging_flags(looked[:COUNTED])
    return Facets(
        facets=tuple(
            facet
            for facet in (_facet("flag", flags), *spread, *labels)
            if facet.choices
        ),
        counted=len(counted),
        capped=len(found) > COUNTED,
    )


def _flags(
    matching: Callable[..., QuerySet[Thread]], terms: Sequence[SearchTerm]
) -> Counter[str]:
    """How many of all are flagged."""
    counts: Counter[str] = Counter()
    for flag in _OF_ALL:
        flagged = SearchTerm(key="flag", values=(Word(text=flag),))
        rows = matching(terms=(*terms, flagged))
        counts[flag] = rows.order_by()[:COUNTED].count()
    return +counts


def _paging_flags(rows: Iterable[tuple[Any, ...]]) -> Counter[str]:
    """The flags of threads' own counters, but those that are counted of all."""
    found = (verdicts.find(Counters(*row)) for row in rows)
    flags = (each.flag for wrong in found for each in wrong)
    return Counter[str](flag for flag in flags if flag not in _OF_ALL)


def _labels(newest: QuerySet[Thread]) -> list[Facet]:
    of_them = ThreadLabel.objects.filter(thread__in=newest.values("id")[:COUNTED])
    spread: dict[str, Counter[str]] = {}
    rows = of_them.values_list("name", "value").annotate(count=Count("thread"))
    for name, value, count in rows.order_by("-count")[: COUNTED * 2]:
        spread.setdefault(name, Counter())[value] = count
    # A label with a value of its own for nearly each thread narrows nothing.
    telling = {name: c for name, c in spread.items() if len(c) <= max(2, c.total() / 2)}
    ranked = sorted(telling, key=lambda name: (-telling[name].total(), name))
    return [_facet(catalogue.LABEL + n, telling[n]) for n in ranked[:LABELS]]


def _facet(key: str, counts: Counter[str]) -> Facet:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    shown = tuple(Choice(value=value, count=count) for value, count in ranked[:TOP])
    return Facet(key=key, choices=shown, more=len(ranked) - len(shown))
