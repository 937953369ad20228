"""Facets: how the threads that match are spread over what they can be narrowed by.

Never writes. Counts the newest threads only, up to a bound, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db.models import Count, QuerySet

from memoryhub.kernel.state.paging import lately
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.lists.terms import Term, Word
from memoryhub.queries.threads import catalogue

#: Threads that are counted at most, values shown of a facet, facets of labels. Of all
#: that a project may have, the panel would cost several times what its page does.
COUNTED, TOP, LABELS = 2_000, 8, 6
_COLUMNS = ("status", "agent_type", "agent_instance", "session")
_COUNTERS = (
    *("tlb_hits", "tlb_misses", "refault_count"),
    *("exchange_count", "faulted_lately_count"),
)


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
    project: Project, *, terms: Sequence[Term], now: datetime, restricted: bool = True
) -> Facets:
    """Counts over the newest COUNTED threads that match. Four queries.

    What is full or due is counted over all that match, up to COUNTED.
    """
    matching = partial(catalogue.matching, project, now=now, restricted=restricted)
    newest = matching(terms=terms).order_by("-listed_at")
    found = list(newest.values_list(*_COLUMNS, *_COUNTERS)[: COUNTED + 1])
    counted = found[:COUNTED]
    spread = [
        _facet(key, Counter(row[place] for row in counted if row[place]))
        for place, key in enumerate(_COLUMNS)
    ]
    labels = _labels(newest)
    flags = _flags(matching, terms) + _paging_flags(
        row[len(_COLUMNS) :] for row in counted
    )
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
    matching: Callable[..., QuerySet[Thread]], terms: Sequence[Term]
) -> Counter[str]:
    """How many are flagged: of all, since what is due was not active lately."""
    counts: Counter[str] = Counter()
    for flag in ("full", "due"):
        asked = Term(key="flag", values=(Word(text=flag),))
        rows = matching(terms=(*terms, asked))
        counts[flag] = rows.order_by()[:COUNTED].count()
    return +counts


def _paging_flags(rows: Iterable[tuple[int, ...]]) -> Counter[str]:
    """The flags that counters of paging lead to, as `catalogue` has them."""
    counts: Counter[str] = Counter()
    for hits, misses, refaults, exchanges, faulted in rows:
        told = exchanges >= catalogue.ENOUGH_EXCHANGES
        counts["faulting"] += told and faulted * 2 > lately(exchanges)
        enough = hits + misses >= catalogue.ENOUGH_LOOKUPS
        counts["missing"] += enough and misses * 3 > hits * 2
        counts["thrashing"] += refaults >= catalogue.THRASHING_REFAULTS
    return +counts


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
