"""Facets: counts of matching threads by the values of search keys.

Never writes. Counts only the newest threads, up to a bound, and reports the cut.
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
from memoryhub.queries.lists.terms import SearchTerm, WordValue
from memoryhub.queries.threads import catalogue, retention, verdicts
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import VerdictCounters

#: Maximum numbers of threads counted, of values shown per facet, of label facets. A
#: count over all threads of a large project would cost several times the page's own
#: cost.
COUNTED, TOP, LABELS = 1_000, 8, 6
_COLUMNS = ("status", "agent_type", "agent_instance", "session")
#: Flags counted over all matching threads: due threads were not active lately, and
#: refused fetches stand in another table.
_OF_ALL = ("full", "refused", "due")


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetChoice:
    value: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One search key and its most frequent values."""

    key: str
    choices: tuple[FacetChoice, ...]
    #: Number of values that are not shown.
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    facets: tuple[Facet, ...]
    counted: int
    #: Whether there are more threads than were counted.
    capped: bool


def get_facets(
    project: Project,
    *,
    terms: Sequence[SearchTerm],
    now: datetime,
    restricted: bool = True,
) -> Facets:
    """Count values over the newest COUNTED matching threads. Seven queries.

    Threads that are full, refused or due are counted over all matches, up to COUNTED.
    """
    matching = partial(
        catalogue.filter_threads, project, now=now, restricted=restricted
    )
    newest = matching(terms=terms).order_by("-listed_at")
    found = list(newest.values_list(*_COLUMNS)[: COUNTED + 1])
    counted = found[:COUNTED]
    spread = [
        _build_facet(key, Counter(row[place] for row in counted if row[place]))
        for place, key in enumerate(_COLUMNS)
    ]
    labels = _build_label_facets(newest)
    looked = newest.filter(verdicts.build_used_condition(now)).values_list(
        *verdicts.COLUMNS
    )
    limits = Thresholds.from_project(project)
    flags = _count_flags(project, matching, terms, now)
    flags += _count_paging_flags(looked[:COUNTED], limits)
    return Facets(
        facets=tuple(
            facet
            for facet in (_build_facet("flag", flags), *spread, *labels)
            if facet.choices
        ),
        counted=len(counted),
        capped=len(found) > COUNTED,
    )


def _count_flags(
    project: Project,
    matching: Callable[..., QuerySet[Thread]],
    terms: Sequence[SearchTerm],
    now: datetime,
) -> Counter[str]:
    """Count the flags of `_OF_ALL` over all matching threads.

    Reads only threads that are full, refused or may be due, for any size of a project.
    """
    refused = verdicts.count_refused_lately(now).filter(project=project)
    ids = refused.values_list("thread", flat=True)[: COUNTED + 1]
    rows = {flag: matching(terms=(*terms, _build_term(flag))) for flag in _OF_ALL}
    if len(ids) <= COUNTED:
        # SQLite would ask of each thread of the project whether it is one of them.
        rows["refused"] = rows["refused"].filter(id__in=list(ids))
    # As a plain condition, which stops at the last thread that is counted.
    rows["due"] = retention.filter_due_in(
        project, retention.build_soon_span(), now=now, rows=matching(terms=terms)
    )
    counts = {flag: rows[flag].order_by()[:COUNTED].count() for flag in _OF_ALL}
    return +Counter(counts)


def _build_term(flag: str) -> SearchTerm:
    return SearchTerm(key="flag", values=(WordValue(text=flag),))


def _count_paging_flags(
    rows: Iterable[tuple[Any, ...]], limits: Thresholds
) -> Counter[str]:
    """Count the flags from threads' own counters, without the flags of `_OF_ALL`."""
    found = (verdicts.find(VerdictCounters(*row), limits) for row in rows)
    flags = (each.flag for wrong in found for each in wrong)
    return Counter[str](flag for flag in flags if flag not in _OF_ALL)


def _build_label_facets(newest: QuerySet[Thread]) -> list[Facet]:
    of_them = ThreadLabel.objects.filter(thread__in=newest.values("id")[:COUNTED])
    spread: dict[str, Counter[str]] = {}
    rows = of_them.values_list("name", "value").annotate(count=Count("thread"))
    for name, value, count in rows.order_by("-count")[: COUNTED * 2]:
        spread.setdefault(name, Counter())[value] = count
    # A label with a different value in nearly every thread narrows nothing.
    telling = {name: c for name, c in spread.items() if len(c) <= max(2, c.total() / 2)}
    ranked = sorted(telling, key=lambda name: (-telling[name].total(), name))
    return [_build_facet(catalogue.LABEL + n, telling[n]) for n in ranked[:LABELS]]


def _build_facet(key: str, counts: Counter[str]) -> Facet:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    shown = tuple(
        FacetChoice(value=value, count=count) for value, count in ranked[:TOP]
    )
    return Facet(key=key, choices=shown, more=len(ranked) - len(shown))
